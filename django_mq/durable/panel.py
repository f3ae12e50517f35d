"""What the admin shows of a message with records. ``MASK`` hides parts of results, as of bodies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from django.template.loader import render_to_string
from django.utils.translation import gettext

from django_mq.diagnosis.language import LOCAL
from django_mq.diagnosis.messages.masking import masked
from django_mq.durable.models import DurableStep
from django_mq.engine.decisions.durable import StepKind, StepOutcome
from django_mq.engine.states import State
from django_mq.seams.extension import MessageEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from uuid import UUID

    from django.http import HttpRequest

#: The most records that a page shows, the last ones.
MOST_SHOWN: Final = 100
#: The most characters of a result that a page shows.
LONGEST: Final = 300


def _last(alias: str, **of_message: Any) -> list[DurableStep]:
    rows = DurableStep.objects.using(alias).filter(**of_message).order_by("-place")[:MOST_SHOWN]
    return list(reversed(rows))


def show(_request: HttpRequest, message: Any) -> str:
    """Return where the handler of a message is now, and what it has done before."""
    alias = message._state.db  # noqa: SLF001 - Django's public habit
    steps = _last(alias, message_id=message.message_id, queue_name=message.queue.name)
    if not steps:
        return ""
    rows = [
        {
            "place": LOCAL.number(step.place + 1),
            "what": _named(step),
            "state": _state(step),
            "took": "" if step.seconds is None else LOCAL.precise(step.seconds),
            "result": _result(step),
        }
        for step in steps
    ]
    given = {"now": _now(message, steps[-1]), "steps": rows, "is_cut": steps[0].place > 0}
    return render_to_string("admin/django_mq/message/steps.html", given)


def _now(message: Any, last: DurableStep) -> str:
    """Say where the handler is."""
    if message.state == State.CLAIMED.value:
        return gettext("A worker has the message, and runs the handler.")
    if message.state == State.DEAD.value:
        return gettext("The message is a dead letter. After a redrive, the handler goes on behind the last step.")
    if message.state != State.PARKED.value or last.outcome != StepOutcome.OPEN.value:
        return gettext("The handler goes on behind the last step when a worker takes the message.")
    words = {"event": _name(last), "time": LOCAL.time(last.until) if last.until else ""}
    if last.kind == StepKind.SLEEP.value:
        return gettext("Until %(time)s, the handler sleeps.") % words
    if last.until is None:
        return gettext("The handler waits for “%(event)s”, without end.") % words
    return gettext("Until %(time)s, the handler waits for “%(event)s”.") % words


def _named(step: DurableStep) -> str:
    """Return the kind and the name of a step."""
    if step.kind == StepKind.WAIT.value:
        return gettext("wait for %(event)s") % {"event": _name(step)}
    return f"{step.get_kind_display()} {_name(step)}".strip()


def _name(step: DurableStep) -> str:
    return " ".join(filter(None, (step.name, step.key)))


def _state(step: DurableStep) -> str:
    if step.until is None or step.outcome == StepOutcome.TIMED_OUT.value:
        return str(step.get_outcome_display())
    if step.outcome == StepOutcome.WOKEN.value:
        return gettext("ended early, instead of %(time)s") % {"time": LOCAL.time(step.until)}
    return gettext("until %(time)s") % {"time": LOCAL.time(step.until)}


def _result(step: DurableStep) -> str:
    """Return the beginning of a result as JSON, without what MASK hides."""
    if step.outcome != StepOutcome.DONE.value or step.kind not in (StepKind.STEP.value, StepKind.WAIT.value):
        return ""
    text = json.dumps(masked(json.loads(step.result), step.queue_name), ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def events_of(_request: HttpRequest, alias: str, message_ids: Collection[UUID]) -> Iterator[MessageEvent]:
    """Yield what the handler of a message has done."""
    for step in _last(alias, message_id__in=message_ids):
        bad = step.outcome == StepOutcome.TIMED_OUT.value
        yield MessageEvent(time=step.recorded_at, words=_words(step), bad=bad, queue=step.queue_name)


def _words(step: DurableStep) -> str:
    given = {"step": _named(step), "state": step.get_outcome_display()}
    if step.until is not None:
        until = {"time": LOCAL.time(step.until)}
        if step.kind == StepKind.SLEEP.value:
            return gettext("sleep until %(time)s") % until
        if step.outcome == StepOutcome.OPEN.value:
            given["state"] = gettext("waits until %(time)s") % until
    return gettext("%(step)s: %(state)s") % given
