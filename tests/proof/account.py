"""Where every message went: published = accepted + dead + present, and what was done twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_mq.engine.states import State
from django_mq.models import History, Message
from tests.proof.notes import DONE, SENT, noted

if TYPE_CHECKING:
    from typing import Self
    from uuid import UUID


@dataclass(frozen=True, kw_only=True)
class Account:
    """The tables of a place at one moment, by message id."""

    sent: Counter[UUID]
    done: Counter[UUID]
    accepted: Counter[UUID]
    dead: Counter[UUID]
    present: Counter[UUID]

    @classmethod
    def of(cls, alias: str) -> Self:
        """Take stock. No process may be working meanwhile."""
        live = list(Message.objects.using(alias).values_list("message_id", "state"))
        history = History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED)
        return cls(
            sent=noted(SENT, alias),
            done=noted(DONE, alias),
            accepted=Counter(history.values_list("message_id", flat=True).iterator()),
            dead=Counter(id_ for id_, state in live if state == State.DEAD.value),
            present=Counter(id_ for id_, state in live if state != State.DEAD.value),
        )

    @property
    def twice(self) -> int:
        """How many messages were handled more than once."""
        return sum(1 for count in self.done.values() if count > 1)

    def check(self) -> None:
        """Fail unless each message that was published is in exactly one place, once, and no other is anywhere."""
        found = self.accepted + self.dead + self.present
        lost, invented, doubled = self.sent - found, found.keys() - self.sent.keys(), found - self.sent
        assert not lost, f"{len(lost)} of {len(self.sent)} are lost: {list(lost)[:3]}"
        assert not invented, f"{len(invented)} were never published: {list(invented)[:3]}"
        assert not doubled, f"{len(doubled)} are in two places: {list(doubled)[:3]}"

    def check_done(self, *, once: bool = False) -> None:
        """Fail unless everything that was accepted was handled; with ``once``, exactly once."""
        undone = self.accepted.keys() - self.done.keys()
        assert not undone, f"{len(undone)} were accepted and never handled: {list(undone)[:3]}"
        if once:
            assert not self.twice, f"{self.twice} were handled more than once"
            early = self.done.keys() - self.accepted.keys()
            assert not early, f"{len(early)} were handled and not accepted: {list(early)[:3]}"
