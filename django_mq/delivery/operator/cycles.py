"""Find the ways on which dead letters come back to their queue, for checks, the doctor and new bindings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from django_mq.engine.decisions.dead_letters import cycles
from django_mq.engine.options import LINKS
from django_mq.models import Queue
from django_mq.stores.registry import shared_store


@dataclass(frozen=True, slots=True)
class Cycle:
    """A way from a queue through others back to it."""

    queues: tuple[str, ...]
    #: The queues in which a rejected message never stays.
    endless: tuple[str, ...]

    def __str__(self) -> str:
        way = " -> ".join(self.queues)
        if not self.endless:
            return f"Dead letters come back on the way {way}, as often as max_dead_letter_cycles says"
        names = ", ".join(map(repr, self.endless))
        return f"Dead letters come back on the way {way}, and for ever: max_dead_letter_cycles is None in {names}"


def find_cycles(*, through: str | None = None, using: str) -> list[Cycle]:
    """Return the cycles in the database, or those through one queue. Raises StoreError."""
    options = {row.name: row.options for row in Queue.objects.using(using).select_related(*LINKS)}
    ways = cycles(options, cache(shared_store(using).exchanges.find))
    found = [
        Cycle(way, tuple(name for name in way[1:] if options[name].max_dead_letter_cycles is None)) for way in ways
    ]
    return [cycle for cycle in found if through is None or through in cycle.queues]
