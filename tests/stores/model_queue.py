"""A plain queue in a list: what a store is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from django_mq.engine.decisions.places import level_of

MAX_ATTEMPTS = 2


@dataclass
class Entry:
    """A message as far as order and state go."""

    id: int
    level: int
    place: tuple[int, int]
    state: str
    due: int
    attempts: int = 0
    suspect: bool = False

    @property
    def key(self) -> tuple[int, tuple[int, int], int]:
        return (-self.level, self.place, self.id)


@dataclass
class ModelQueue:
    """Does what the store should do, slowly and obviously."""

    levels: int
    due_first: bool
    now: int = 0
    paused: bool = False
    entries: dict[int, Entry] = field(default_factory=dict)

    def publish(self, id_: int, priority: int, delay: int) -> None:
        due = self.now + delay
        place = (0, due) if delay and self.due_first else (1, 0)
        state = "scheduled" if delay else "ready"
        self.entries[id_] = Entry(id_, level_of(priority, self.levels), place, state, due)

    def in_state(self, state: str) -> list[Entry]:
        return sorted((entry for entry in self.entries.values() if entry.state == state), key=lambda e: e.key)

    def promote(self) -> None:
        for entry in self.in_state("scheduled"):
            if entry.due <= self.now:
                entry.state = "ready"

    def claim(self, credit: int) -> list[int]:
        self.promote()
        head = [] if self.paused else self.in_state("ready")[:credit]
        if head and head[0].suspect:
            head = head[:1]
            head[0].attempts += 1
        else:
            clean = next((index for index, entry in enumerate(head) if entry.suspect), len(head))
            head = head[:clean]
        for entry in head:
            entry.state = "claimed"
        return [entry.id for entry in head]

    def remove(self, id_: int) -> None:
        del self.entries[id_]

    def release(self, id_: int, *, counted: bool, delay: int) -> None:
        entry = self.entries[id_]
        self.count(entry, counted=counted)
        entry.suspect = entry.suspect and not counted
        entry.state, entry.due = ("scheduled", self.now + delay) if delay else ("ready", entry.due)

    def bury(self, id_: int, *, counted: bool) -> None:
        entry = self.entries[id_]
        self.count(entry, counted=counted)
        entry.state, entry.suspect = "dead", False

    @staticmethod
    def count(entry: Entry, *, counted: bool) -> None:
        entry.attempts += counted - entry.suspect

    def lose_worker(self) -> None:
        for entry in self.in_state("claimed"):
            exhausted = entry.suspect and entry.attempts >= MAX_ATTEMPTS
            entry.state, entry.suspect = ("dead", False) if exhausted else ("ready", True)

    def close_session(self) -> None:
        for entry in self.in_state("claimed"):
            entry.attempts -= entry.suspect
            entry.state = "ready"

    def retry(self) -> None:
        for entry in self.in_state("dead"):
            entry.state, entry.attempts = "ready", 0

    def deliver_now(self) -> None:
        for entry in self.in_state("scheduled"):
            entry.state = "ready"
