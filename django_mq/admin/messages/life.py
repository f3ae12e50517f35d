"""The page of a message by its id: while it waits, runs or is dead, in any queue, and when it has finished."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext as _

from django_mq.admin.addresses import canvas_address, chips
from django_mq.admin.messages import timeline
from django_mq.admin.messages.neighbours import neighbours
from django_mq.admin.panels import events_of
from django_mq.delivery.operator.redrives import origin_of
from django_mq.diagnosis.messages import payload
from django_mq.diagnosis.messages.life import Life, id_in, life_of
from django_mq.models import Attempt, History, Message, TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from django.db.models import Model, QuerySet
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin

#: The tables that have something about a message, in the order in which a page is looked for.
TABLES = (Message, History, Attempt, TaskResult)


def page(admin: TableAdmin, request: HttpRequest, message_id: UUID) -> HttpResponse:
    """Show the message with this id, or the Celery task, where the user may see it: the latest row of its life."""
    seen = {model: viewable(admin, request, model) for model in TABLES}
    if all(rows is None for rows in seen.values()):
        raise PermissionDenied
    for row in _places(message_id, seen):
        found: Any = admin.admin_site.get_model_admin(type(row))
        response: HttpResponse = found.change_view(request, str(row.pk))
        return response
    answer = admin.page(request, "message/unknown", _("No message has this id"), message_id=message_id)
    answer.status_code = 404
    return answer


def _places(message_id: UUID, seen: dict[Any, QuerySet[Any] | None]) -> Iterator[Model]:
    """Yield the rows that have a page, the best one first."""
    yield from _life(message_id, seen).rows
    if (attempts := seen[Attempt]) is not None:
        yield from attempts.filter(message_id=message_id)[:1]
        yield from attempts.filter(correlation_id=str(message_id))[:1]
    if (results := seen[TaskResult]) is not None:
        yield from results.filter(pk=message_id)


def _life(message_id: UUID, seen: dict[Any, QuerySet[Any] | None]) -> Life:
    live, past = seen[Message], seen[History]
    return life_of(
        message_id,
        Message.objects.none() if live is None else live,
        History.objects.none() if past is None else past,
    )


def viewable(admin: TableAdmin, request: HttpRequest, model: Any) -> QuerySet[Any] | None:
    """Return the rows of a table that the user may view; None for none."""
    if not admin.admin_site.is_registered(model):
        return None
    page: Any = admin.admin_site.get_model_admin(model)
    return page.get_queryset(request) if page.has_view_permission(request) else None


class MessagePlace(NamedTuple):
    """A queue that a message is or was in."""

    queue: str
    state: str
    time: Any
    address: str
    is_shown: bool


def details(admin: TableAdmin, request: HttpRequest, row: Any, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Return the context that the pages of all rows of a message have in common."""
    seen = {model: viewable(admin, request, model) for model in TABLES}
    message_id = row.message_id or id_in(row.correlation_id)
    life = _life(message_id, seen) if message_id else Life([], [])
    others = list(_results(row, seen[TaskResult]))
    ids = {each.message_id for each in (*life.rows, row)} - {None}
    others += [
        timeline.Event(each.time, each.words, bad=each.bad, queue=each.queue) for each in events_of(request, ids)
    ]
    events = timeline.of_life(life, attempts, origins=dict(_origins(life)), others=others)
    places = list(_shown(admin, life, row))
    return {
        "timeline": events,
        "places": places if len(places) > 1 else [],
        "is_cut": life.is_cut,
        "canvas_address": _canvas(admin, row) if seen[Message] is not None else "",
        "shows_queues": len({event.queue for event in events} - {""}) > 1,
        "neighbours": neighbours(admin, request),
        "chips": chips(admin, [message_id]).get(message_id, []) if message_id else [],
    }


def _canvas(admin: TableAdmin, row: Any) -> str:
    """Return the page of the chain, the group or the chord of a task; blank for other messages."""
    if not isinstance(row, Message | History):
        return ""
    try:
        return canvas_address(admin, json.loads(payload.raw(row, "headers") or "null"))
    except (ValueError, RecursionError):
        return ""


def _origins(life: Life) -> Iterator[tuple[int, str]]:
    for row in life.live:
        origin = origin_of(row.queue.name, payload.raw(row, "headers")) if row.is_dead_letter else row.queue.name
        if origin != row.queue.name:
            yield row.pk, origin


def _results(row: Any, results: QuerySet[Any] | None) -> Iterator[timeline.Event]:
    for result in results.filter(pk=row.message_id) if results is not None and row.message_id else ():
        words = _("result: successful") if result.successful else _("result: failed")
        yield timeline.Event(result.finished_at, words, bad=not result.successful, queue=result.queue_name)


def _shown(admin: TableAdmin, life: Life, row: Any) -> Iterator[MessagePlace]:
    """Yield where the message is, then where it was."""
    for each in life.rows:
        is_live = isinstance(each, Message)
        state = each.get_state_display() if is_live else each.get_outcome_display()
        time = each.published_at if is_live else each.finished_at
        is_shown = (type(each), each.pk) == (type(row), row.pk)
        yield MessagePlace(
            timeline.queue_of(each), str(state), time, admin.page_address(type(each), each.pk), is_shown
        )
