"""What limits by key have used, in memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from django_mq.engine.decisions.keyed_limits import MOST_KNOWN, Allowed
from django_mq.inprocess.memory.part import Part, locked
from django_mq.stores.subjects import rates as subjects

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from django_mq.engine.decisions.keyed_limits import KeyState, LimitedKey, LimitFacts, Slot


class Rates(Part, subjects.Rates):
    @locked
    def facts(self, queue: str) -> LimitFacts:
        return self.broker.limits[queue].facts(self.broker.now().timestamp(), self._runs)

    @locked
    def running(self, queue: str) -> Mapping[LimitedKey, int]:
        return Counter((slot.limit, slot.key) for slot in self.broker.limits[queue].slots if self._runs(slot))

    @locked
    def page(self, queue: str) -> LimitFacts:
        """Return what a claim knows of the keys before it reads messages."""
        return self.broker.limits[queue].facts(self.broker.now().timestamp(), self._runs, MOST_KNOWN)

    @locked
    def of_keys(self, queue: str, keys: Collection[LimitedKey]) -> LimitFacts:
        """Return what is known of these keys."""
        return self.broker.limits[queue].of_keys(keys, self.broker.now().timestamp())

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
        self.broker.limits[queue].use(states, slots, self._is_over)

    @locked
    def hold(self, queue: str, limit: str, key: str, seconds: float) -> None:
        self.broker.limits[queue].hold((limit, key), self.broker.now().timestamp() + seconds, seconds)

    @locked
    def allow(self, queue: str, limit: str, key: str, given: Allowed) -> None:
        known = self.broker.limits[queue].allowed
        known.pop((limit, key), None)
        if given != Allowed():
            known[limit, key] = given

    @locked
    def prune(self, limit: int) -> int:  # noqa: ARG002 - all at once
        now = self.broker.now().timestamp()
        return sum(known.prune(now, self._is_over) for known in self.broker.limits.values())
