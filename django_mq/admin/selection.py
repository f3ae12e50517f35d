"""The messages an operator has chosen, as they were when the act began."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID  # noqa: TC003 - NamedTuple evaluates its annotations for typing.get_type_hints

from django.contrib.admin import helpers

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

#: Most messages changed by one act; with "select all" the oldest come first and the rest takes another go.
LIMIT = 10_000


class Chosen(NamedTuple):
    """As much of a message as an act needs."""

    id: int
    message_id: UUID
    queue_name: str
    state: int
    level: int
    place: int


class Selection:
    """Chosen messages, in delivery order, and how many were asked for."""

    def __init__(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        fields = ("pk", "message_id", "queue__name", "state", "level", "place")
        rows = queryset.order_by("pk").values_list(*fields)[: LIMIT + 1]
        found = [Chosen(*row) for row in rows]
        #: More than one act may change: only with "select all".
        self.cut = len(found) > LIMIT
        self.messages = sorted(found[:LIMIT], key=lambda chosen: (-chosen.level, chosen.place, chosen.id))
        self.asked = max(len(self.messages), self._named(request))

    @staticmethod
    def _named(request: HttpRequest) -> int:
        """Return how many rows the request names: some may have left the list since it was shown."""
        across = request.POST.get("select_across") == "1"
        return 0 if across else len(set(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)))

    @property
    def ids(self) -> list[int]:
        return [chosen.id for chosen in self.messages]

    @property
    def queues(self) -> set[str]:
        return {chosen.queue_name for chosen in self.messages}

    @property
    def states(self) -> Counter[int]:
        """How many messages were in each state; those that had left are not counted."""
        return Counter(chosen.state for chosen in self.messages)
