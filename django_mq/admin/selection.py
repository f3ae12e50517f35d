"""The messages an operator has chosen, as they were when the act began."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID  # noqa: TC003 - NamedTuple evaluates its annotations for typing.get_type_hints

from django.contrib.admin import helpers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import Q, QuerySet
    from django.http import HttpRequest

#: Most messages changed while the page waits; with "select all", more become an operation in the background.
LIMIT = 1_000


class Chosen(NamedTuple):
    """As much of a message as an act needs."""

    id: int
    message_id: UUID
    queue_name: str
    state: int
    level: int
    place: int


class Batch:
    """Messages that an act changes at one go."""

    def __init__(self, messages: Sequence[Chosen]) -> None:
        self.messages = messages

    @property
    def ids(self) -> list[int]:
        return [chosen.id for chosen in self.messages]

    @property
    def queues(self) -> set[str]:
        return {chosen.queue_name for chosen in self.messages}


def chosen_of(rows: QuerySet[Any]) -> list[Chosen]:
    """Return as much of the rows as an act needs."""
    return [Chosen(*row) for row in rows.values_list("pk", "message_id", "queue__name", "state", "level", "place")]


class Selection(Batch):
    """Chosen messages, in delivery order, and how many were asked for."""

    def __init__(self, request: HttpRequest, queryset: QuerySet[Any], among: Q | None = None) -> None:
        #: Of all that match, those that the act is for; who was chosen one by one is told why it stays.
        self._rows = queryset.filter(among) if among and _is_across(request) else queryset
        found = chosen_of(self._rows.order_by("pk")[: LIMIT + 1])
        #: More than a page may wait for: only with "select all".
        self.cut = len(found) > LIMIT
        super().__init__(sorted(found[:LIMIT], key=lambda chosen: (-chosen.level, chosen.place, chosen.id)))
        self.asked = max(len(self.messages), self._named(request))

    def count(self, limit: int) -> int:
        """Return how many match, those beyond what a page may change too, counting up to the limit."""
        return self._rows.order_by()[:limit].count()

    @staticmethod
    def _named(request: HttpRequest) -> int:
        """Return how many rows the request names: some may have left the list since it was shown."""
        return 0 if _is_across(request) else len(set(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)))

    @property
    def states(self) -> Counter[int]:
        """How many messages were in each state; those that had left are not counted."""
        return Counter(chosen.state for chosen in self.messages)


def _is_across(request: HttpRequest) -> bool:
    """Return whether all that match the list's filters are meant, and not only those with a tick."""
    return request.POST.get("select_across") == "1"
