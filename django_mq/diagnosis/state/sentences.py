"""What needs a look, in sentences in the language of the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_mq.diagnosis.language import LOCAL, exact, rate, time_text
from django_mq.diagnosis.state.alerts import AlertKind
from django_mq.diagnosis.state.unwanted import MOST_READ
from django_mq.engine.decisions.limiting_factor import Factor
from django_mq.engine.decisions.limits import Overflow
from django_mq.formats import COUNT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_mq.diagnosis.state.alerts import Alert
    from django_mq.diagnosis.state.overview import QueueState

#: The most names of workers in a sentence.
NAMED = 3


def sentence(alert: Alert) -> str:
    """Return the alert in a sentence or two."""
    return SENTENCES[alert.kind](alert, alert.queue) if alert.queue else _stale(alert.workers)


def _why_late(alert: Alert, state: QueueState) -> str:
    most = state.max_receivers or 0
    words: dict[Factor, str] = {
        Factor.KEYS: _("Messages wait for their keys: see the limits by key on the page of the queue."),
        Factor.QUEUE: _(
            "As many of its messages are in flight as the queue allows over all workers (%(most)s): "
            "more workers do not help. Raise its limit, or make the handlers faster."
        )
        % {"most": exact(state.most_claimed)},
        Factor.RECEIVERS: ngettext(
            "The queue lets %(count)s worker receive at a time: more workers do not help.",
            "The queue lets %(count)s workers receive at a time: more workers do not help.",
            most,
        )
        % {"count": exact(most)},
        Factor.SLOTS: _("Its workers are busy: there are too few, or they are slow."),
        Factor.CREDIT: _(
            "Its workers have idle slots, and as many messages in flight as they may: raise their max."
        ),
        Factor.GROUPS: _(
            "Messages of a group are delivered one at a time: see the groups on the page of the queue."
        ),
        Factor.ORDER: _(
            "The queue keeps a strict order: a message that cannot be delivered holds up those behind it."
        ),
        Factor.NOTHING: _("Its workers could have more messages in flight: see what its consumers wait for."),
    }
    return words[alert.factor]


def _unwanted(alert: Alert, state: QueueState) -> str:
    words = ngettext(
        "The selector of no consumer matches %(count)s message at its head.",
        "The selector of no consumer matches %(count)s messages at its head.",
        alert.unwanted,
    )
    return f"{waiting_sentence(state)} {words % {'count': LOCAL.least(alert.unwanted, MOST_READ)}}"


def waiting_sentence(state: QueueState) -> str:
    age = LOCAL.age(state.oldest_ready_seconds or 0.0, is_exact=state.is_oldest_exact)
    if not state.ready:
        return _("A scheduled message has been due for %(age)s.") % {"age": age}
    words = ngettext(
        "%(count)s message has been ready for %(age)s.",
        "%(count)s messages are ready, the oldest for %(age)s.",
        state.ready,
    )
    return words % {"count": LOCAL.least(state.ready), "age": age}


def _failing(alert: Alert, _state: QueueState) -> str:
    rates = {"failed": rate(alert.failed), "finished": rate(alert.accepted)}
    return _("More attempts fail (%(failed)s/s) than messages are finished (%(finished)s/s).") % rates


def _dead(_alert: Alert, state: QueueState) -> str:
    number = state.new_dead_letters
    words = ngettext("%(count)s dead letter waits for you.", "%(count)s dead letters wait for you.", number)
    limit = COUNT_LIMIT if max(state.dead, state.dead_letters_of_others) >= COUNT_LIMIT else number + 1
    return words % {"count": LOCAL.least(number, limit)}


def _retrying(_alert: Alert, state: QueueState) -> str:
    words = ngettext(
        "%(count)s message failed and waits for its next attempt.",
        "%(count)s messages failed and wait for their next attempt.",
        state.retrying,
    )
    limit = state.retrying if state.is_retrying_cut else COUNT_LIMIT
    return words % {"count": LOCAL.least(state.retrying, limit)}


def _full(_alert: Alert, state: QueueState) -> str:
    words = {
        Overflow.DROP: _("It is full (limit: %(most)s) and drops new messages."),
        Overflow.FLOW: _("It is full (limit: %(most)s) and lets publishers wait."),
    }
    refuses = _("It is full (limit: %(most)s) and refuses new messages.")
    return words.get(Overflow(state.overflow), refuses) % {"most": exact(state.max_messages or 0)}


def _paused(_alert: Alert, state: QueueState) -> str:
    parts = []
    if state.paused_reason:
        parts.append(_("The reason: %(reason)s.") % {"reason": state.paused_reason.rstrip(".")})
    if state.paused_until:
        parts.append(_("It resumes by itself at %(time)s.") % {"time": time_text(state.paused_until).rstrip(".")})
    else:
        parts.append(_("It stays paused until an operator resumes it."))
    if state.ready:
        parts.append(waiting_sentence(state))
    return " ".join(parts)


def _stale(names: Sequence[str]) -> str:
    named = ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
    words = ngettext(
        "%(count)s worker has stopped its heartbeat: %(names)s.",
        "%(count)s workers have stopped their heartbeat: %(names)s.",
        len(names),
    )
    return words % {"count": exact(len(names)), "names": named}


SENTENCES: dict[AlertKind, Callable[[Alert, QueueState], str]] = {
    AlertKind.UNSERVED: lambda _alert, state: f"{waiting_sentence(state)} {_('No worker takes from it.')}",
    AlertKind.QUIET: lambda _alert, state: (
        f"{waiting_sentence(state)} {_('All its workers have been told to take no new work, or to stop.')}"
    ),
    AlertKind.UNWANTED: _unwanted,
    AlertKind.LATE: lambda alert, state: f"{waiting_sentence(state)} {_why_late(alert, state)}",
    AlertKind.FULL: _full,
    AlertKind.FAILING: _failing,
    AlertKind.DEAD: _dead,
    AlertKind.RETRYING: _retrying,
    AlertKind.PAUSED: _paused,
}
