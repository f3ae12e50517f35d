"""The messages that somebody names: by their ids, or by what the filters of the message list say."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.db.models import Q

from django_mq.delivery.operator.actions import COLUMNS, Row, in_delivery_order
from django_mq.delivery.operator.redrives import batches
from django_mq.diagnosis.messages.criteria import narrowed
from django_mq.models import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from django.db.models import QuerySet

    from django_mq.engine.states import State


@dataclass(frozen=True, slots=True)
class Choice:
    """Which messages are meant. Ids name each of them; filters all that match, in any state an action is for."""

    ids: Sequence[UUID] = ()
    #: By the names they have in the address of the admin's list.
    filters: Mapping[str, str] = field(default_factory=dict)
    #: At most so many, the oldest first; None = all.
    limit: int | None = None
    #: What filters look among, beside the states.
    among: Q = field(default_factory=Q)

    def count(self, states: frozenset[State], *, limit: int, using: str) -> Counter[int]:
        """Return how many there are in each state, counting no more than ``limit`` of them."""
        bound = limit if self.limit is None else min(limit, self.limit)
        states_of = self._rows(states, using).order_by("pk").values_list("state", flat=True)
        return Counter(states_of[:bound])

    def missing(self, *, using: str) -> list[UUID]:
        """Return the ids, in their order, that no message has."""
        there = set(self._rows(frozenset(), using).values_list("message_id", flat=True)) if self.ids else set()
        return [one for one in dict.fromkeys(self.ids) if one not in there]

    def batches(self, states: frozenset[State], *, using: str) -> Iterator[list[Row]]:
        """Yield the messages that are there now, each once, a batch in delivery order."""
        for batch in batches(self._rows(states, using).values_list(*COLUMNS), self.limit):
            yield in_delivery_order(Row(*values) for values in batch)

    def _rows(self, states: frozenset[State], alias: str) -> QuerySet[Message]:
        """Return those that match. Who is named by an id is meant in any state: it has to be said why it stays."""
        rows = narrowed(Message.objects.using(alias), self.filters, datetime.now(UTC))
        if self.ids:
            return rows.filter(message_id__in=self.ids)
        return rows.filter(self.among, state__in=[state.value for state in states])
