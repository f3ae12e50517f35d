"""What limits by key have used, in memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from django_mq.engine.decisions.keyed_limits import Allowed, LimitFacts
from django_mq.inprocess.memory.part import Part, locked
from django_mq.stores.subjects import rates as subjects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.engine.decisions.keyed_limits import KeyState, LimitedKey, Slot


class Rates(Part, subjects.Rates):
    @locked
    def facts(self, queue: str) -> LimitFacts:
        now, known = self.broker.now().timestamp(), self.broker.limits[queue]
        states = known.states.items()
        return LimitFacts(
            now,
            {key: each.used for key, each in states if each.used.free_at > now or each.waiting_until is not None},
            {key: until for key, until in known.held.items() if until > now},
            dict(known.allowed),
            Counter((slot.limit, slot.key) for slot in known.slots if self._runs(slot)),
            {key: each.waiting_until for key, each in states if each.waiting_until is not None},
        )

    def _runs(self, slot: Slot) -> bool:
        run, row = self.broker.runs.get(slot.message), self.broker.rows.get(slot.message)
        if run is not None and run.claim == slot.claim:
            return run.session in self.broker.sessions
        return row is not None and row.held and row.receipt == (slot.message, slot.claim)

    def _is_over(self, slot: Slot) -> bool:
        row = self.broker.rows.get(slot.message)
        return not self._runs(slot) and (row is None or row.receipt != (slot.message, slot.claim))

    @locked
    def use(self, queue: str, states: Mapping[LimitedKey, KeyState], slots: Sequence[Slot]) -> None:
        known = self.broker.limits[queue]
        known.states |= states
        known.slots = [slot for slot in known.slots if not self._is_over(slot)] + list(slots)

    @locked
    def hold(self, queue: str, limit: str, key: str, seconds: float) -> None:
        held = self.broker.limits[queue].held
        held[limit, key] = max(self.broker.now().timestamp() + seconds, held.get((limit, key), 0.0))

    @locked
    def allow(self, queue: str, limit: str, key: str, given: Allowed) -> None:
        known = self.broker.limits[queue].allowed
        known.pop((limit, key), None)
        if given != Allowed():
            known[limit, key] = given

    @locked
    def prune(self, limit: int) -> int:  # noqa: ARG002 - all at once
        now, pruned = self.broker.now().timestamp(), 0
        for known in self.broker.limits.values():
            over = [
                key
                for key, each in known.states.items()
                if each.used.free_at < now - 60 and each.waiting_until is None
            ]
            ended = [key for key, until in known.held.items() if until < now]
            for key in over:
                del known.states[key]
            for key in ended:
                del known.held[key]
            pruned += len(over) + len(ended)
        return pruned
