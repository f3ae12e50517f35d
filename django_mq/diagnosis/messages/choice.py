"""The messages that a command names: by their ids, or by the filters of the message list."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.db.models import Q

from django_mq.delivery.operator.actions import COLUMNS, ActionTarget, in_delivery_order
from django_mq.delivery.operator.redrives import batches
from django_mq.diagnosis.messages.criteria import narrowed
from django_mq.engine.states import CLAIMED
from django_mq.models import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from django.db.models import QuerySet

    from django_mq.engine.states import State


@dataclass(frozen=True, slots=True)
class Choice:
    """Messages by their ids, in any state, or by filters, in the states that an action applies to."""

    ids: Sequence[UUID] = ()
    #: Values by the URL parameters of the list of messages.
    filters: Mapping[str, str] = field(default_factory=dict)
    #: The maximum number of messages, the oldest first; None: all.
    limit: int | None = None
    #: A further condition, used with the filters.
    among: Q = field(default_factory=Q)

    def count(self, states: frozenset[State], *, limit: int, using: str) -> Counter[int]:
        """Count at most ``limit`` messages, by state."""
        bound = limit if self.limit is None else min(limit, self.limit)
        states_of = self._rows(states, using).order_by("pk").values_list("state", flat=True)
        return Counter(states_of[:bound])

    def missing(self, *, using: str) -> list[UUID]:
        """Return the ids without a message, in the given order."""
        there = set(self._rows(frozenset(), using).values_list("message_id", flat=True)) if self.ids else set()
        return [one for one in dict.fromkeys(self.ids) if one not in there]

    def batches(self, states: frozenset[State], *, using: str) -> Iterator[list[ActionTarget]]:
        """Yield the messages in batches, each batch in delivery order."""
        for batch in batches(self._rows(states, using).values_list(*COLUMNS), self.limit):
            yield in_delivery_order(ActionTarget(*values) for values in batch)

    def held_in(self, *, using: str) -> list[str]:
        """Return the queues of the messages that workers hold."""
        held = self._rows(frozenset({CLAIMED}), using).filter(state=CLAIMED.value)
        return list(held.order_by().values_list("queue__name", flat=True).distinct())

    def _rows(self, states: frozenset[State], alias: str) -> QuerySet[Message]:
        rows = narrowed(Message.objects.using(alias), self.filters, datetime.now(UTC))
        if self.ids:
            return rows.filter(message_id__in=self.ids)
        return rows.filter(self.among, state__in=[state.value for state in states])
