"""What handlers say of failures: on the page of their queue, and what it means for one message.

The handlers are those of the code of this process. Workers may run another version.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING

from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from django_mq.delivery.codecs import decode_body
from django_mq.delivery.consumer.handlers import discover, registered
from django_mq.diagnosis.language import LOCAL, time_text
from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.retries import BY_CLASS, Retries, classes_in
from django_mq.engine.decisions.verdict import Ending, Verdict, verdict
from django_mq.engine.states import CLAIMED, READY, SCHEDULED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.engine.decisions.verdict import Policy
    from django_mq.models import Message, Queue

#: The states of messages that may fail yet.
OPEN = (SCHEDULED.value, READY.value, CLAIMED.value)


def handlers_of(queue: str) -> list[Handler]:
    """Return the handlers of a queue in the code of this process, as far as that can be imported."""
    _discover_once()
    return registered(queue)


@cache
def _discover_once() -> None:
    with suppress(Exception):  # a module of the project may raise anything; W007 says so
        discover()


def most_attempts(queue: Queue) -> int:
    """Return the most attempts of a message: what its queue says, or its only handler."""
    handlers = handlers_of(queue.name)
    own = handlers[0].retries if len(handlers) == 1 else None
    return queue.max_attempts if own is None or own.max_attempts is None else own.max_attempts


def of_queue(queue: Queue) -> list[tuple[str, str]]:
    """Return the panel of the page of a queue; none if no handler has rules of its own."""
    return _panel(
        (handler.name, [*_attempts(handler.retries, queue), *_by_class(handler.retries)])
        for handler in handlers_of(queue.name)
        if handler.retries is not None
    )


def of_message(message: Message) -> list[tuple[str, str]]:
    """Return the panel of the page of a message that may fail yet: what happens next, and when."""
    if message.state not in OPEN or message.is_dead_letter:
        return []
    body = partial(decode_body, bytes(message.body), message.content_type, message.content_encoding)
    return _panel(
        (handler.name, [*_next(handler.retries, message), *_by_class(handler.retries)])
        for handler in (known.over(body) for known in handlers_of(message.queue.name))
        if handler.retries is not None
    )


def _panel(rules: Iterator[tuple[str, list[str]]]) -> list[tuple[str, str]]:
    found = [(name, " ".join(sentences)) for name, sentences in rules]
    if not found:
        return []
    known = _("As in the code of this web process; workers may run another version.")
    lines = format_html_join("", "<p><strong>{}</strong><br>{}</p>", found)
    return [(_("When a handler fails"), format_html('{}<p class="quiet">{}</p>', lines, known))]


def _attempts(own: Retries, queue: Queue) -> Iterator[str]:
    policy = own.over(queue.options)
    if policy.max_attempts:
        yield _("At most %(most)s attempts.") % {"most": policy.max_attempts}
    else:
        yield _("Any number of attempts.")
    last = policy.max_attempts - 1 if policy.max_attempts else 4
    delays = [_delay(policy, attempt) for attempt in range(1, min(last, 4) + 1)]
    if callable(own.backoff):
        yield _("The delay is what %(function)s says.") % {"function": _name_of(own.backoff)}
    elif delays:
        yield _("Delays: %(delays)s.") % {"delays": ", ".join(delays) + (", …" if last > len(delays) else "")}
    if own.retry_within_seconds is not None:
        within = {"time": _time(own.retry_within_seconds)}
        yield _("No retry begins later than %(time)s after the publication.") % within


def _next(own: Retries, message: Message) -> Iterator[str]:
    policy, now = own.over(message.queue.options), datetime.now(UTC)
    is_counted = message.suspect and message.state == CLAIMED.value
    attempt = message.attempts + (not is_counted)
    if policy.max_attempts:
        words = {"attempt": attempt, "most": policy.max_attempts}
        yield _("Attempt %(attempt)s of %(most)s is next, or runs.") % words
    else:
        yield _("Attempt %(attempt)s is next, or runs.") % {"attempt": attempt}
    left = own.left_seconds(message.published_at.timestamp(), message.place, now.timestamp())
    wait = None if callable(own.backoff) else _backoff(policy).delay(attempt)
    is_last = verdict(Ending.FAILED, attempt, policy, wait or 0.0, left_seconds=left).verdict is Verdict.DEAD
    if is_last:
        yield _("If it fails, the message is a dead letter.")
    elif callable(own.backoff):
        yield _("If it fails, the next one begins when %(function)s says.") % {"function": _name_of(own.backoff)}
    else:
        yield _("If it fails, the next one begins after %(time)s.") % {"time": _delay(policy, attempt)}
    if left is not None:
        end = time_text(now + timedelta(seconds=left))
        yield _("No retry begins after %(time)s.") % {"time": end}


def _by_class(own: Retries) -> Iterator[str]:
    words = {
        "retry_on": _("Retried: only %(errors)s."),
        "reject_on": _("A dead letter at once: %(errors)s."),
        "release_on": _("Uncounted, after %(time)s: %(errors)s."),
    }
    for name in BY_CLASS:
        if kinds := classes_in(getattr(own, name)):
            errors = ", ".join(kind.__name__ for kind in kinds)
            yield words[name] % {"errors": errors, "time": _time(own.release_seconds)}


def _backoff(policy: Policy) -> Backoff:
    """Return the backoff without what is drawn at random."""
    return replace(policy.backoff, jitter=0.0) if isinstance(policy.backoff, Backoff) else Backoff()


def _delay(policy: Policy, attempt: int) -> str:
    return _time(_backoff(policy).delay(attempt))


def _time(seconds: float) -> str:
    return LOCAL.precise(seconds) if 0 < seconds < 1 else LOCAL.duration(seconds)


def _name_of(function: object) -> str:
    return getattr(function, "__name__", None) or type(function).__name__
