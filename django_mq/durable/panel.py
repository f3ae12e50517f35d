"""What the admin shows of a message with records. Results are left out: they may have what ``MASK`` hides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext

from django_mq.diagnosis.language import LOCAL
from django_mq.durable.models import DurableStep
from django_mq.engine.decisions.durable import StepKind, StepOutcome
from django_mq.seams.extension import MessageEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from uuid import UUID

    from django.http import HttpRequest

#: The most records that a page shows, the last ones.
MOST_SHOWN = 100


def _last(alias: str, **of_message: Any) -> list[DurableStep]:
    rows = DurableStep.objects.using(alias).filter(**of_message).order_by("-place")[:MOST_SHOWN]
    return list(reversed(rows))


def show(_request: HttpRequest, message: Any) -> str:
    """Return what the handler of a message has done, and what it waits for."""
    alias = message._state.db  # noqa: SLF001 - Django's public habit
    steps = _last(alias, message_id=message.message_id, queue_name=message.queue.name)
    lines = [(f"{step.place + 1}. {_words(step)}",) for step in steps]
    return format_html_join(mark_safe("<br>"), "{}", lines)


def events_of(_request: HttpRequest, alias: str, message_ids: Collection[UUID]) -> Iterator[MessageEvent]:
    """Yield what the handler of a message has done."""
    for step in _last(alias, message_id__in=message_ids):
        bad = step.outcome == StepOutcome.TIMED_OUT.value
        yield MessageEvent(time=step.recorded_at, words=_words(step), bad=bad, queue=step.queue_name)


def _words(step: DurableStep) -> str:
    named = " ".join(filter(None, (step.name, step.key)))
    given = {"kind": step.get_kind_display(), "name": named, "state": step.get_outcome_display()}
    if step.until is not None:
        until = {"time": LOCAL.time(step.until)}
        if step.kind == StepKind.SLEEP.value:
            return gettext("sleep until %(time)s") % until
        if step.outcome == StepOutcome.OPEN.value:
            given["state"] = gettext("waits until %(time)s") % until
    return gettext("%(kind)s %(name)s: %(state)s") % given
