"""The life of a message: its rows in all queues, and those that have left.

A message keeps its id when it moves, dies or is redriven. The messages of a Celery task have other ids, and the
id of the task as correlation id: a retry is another message of the same life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db.models import F

from django_mq.delivery.consumer.handlers import TASK_HEADERS
from django_mq.models.message import having

if TYPE_CHECKING:
    from django.db.models import QuerySet

#: The most rows of a life that are read from each table, the newest first.
MOST = 50


class Life(NamedTuple):
    """The rows of one life, the newest first."""

    live: list[Any]
    past: list[Any]
    #: Whether there are more rows.
    is_cut: bool = False

    @property
    def rows(self) -> list[Any]:
        """The rows that are live, then those that have left."""
        return [*self.live, *self.past]


def life_of(message_id: UUID, live: QuerySet[Any], past: QuerySet[Any]) -> Life:
    """Return those of these rows that have this id, or belong to the same Celery task.

    ``message_id`` may be the id of a task, too. ``live`` are messages and ``past`` rows of the history: those that
    the user may view.
    """
    tables = (live, past)
    own = [rows.filter(message_id=message_id) for rows in tables]
    named = [_of_tasks(rows).values_list("correlation_id", flat=True).order_by().distinct() for rows in own]
    tasks = {str(message_id), *(task for names in named for task in names if task)}
    live_rows, past_rows = [
        _merged(mine, _of_tasks(rows.filter(correlation_id__in=tasks)))
        for mine, rows in zip(own, tables, strict=True)
    ]
    is_cut = max(len(live_rows), len(past_rows)) > MOST
    return Life(live_rows[:MOST], past_rows[:MOST], is_cut)


def id_in(text: str | None) -> UUID | None:
    """Return the UUID that a text is; None if it is none."""
    try:
        return UUID(text or "")
    except ValueError:
        return None


def _of_tasks(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.filter(*map(having, sorted(TASK_HEADERS)))


def _merged(*parts: QuerySet[Any]) -> list[Any]:
    # The sum keeps a database from walking back through the table instead of reading the index of the id.
    found = {row.pk: row for rows in parts for row in rows.order_by((F("pk") + 0).desc())[: MOST + 1]}
    return sorted(found.values(), key=lambda row: -row.pk)
