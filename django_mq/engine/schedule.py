"""Entries that are not yet due."""

from typing import TYPE_CHECKING

from django_mq.engine.timeline import NEVER, Timeline

if TYPE_CHECKING:
    from django_mq.engine.entry import Entry


def due_order(entry: "Entry") -> tuple[float, int, int]:
    """Earliest due first; at the same instant redeliveries first, then by arrival."""
    due_at = NEVER if entry.due_at is None else entry.due_at
    return due_at, 0 if entry.redelivered else 1, entry.arrival


class Schedule(Timeline):
    """Scheduled entries in the order they become due.

    Artemis puts redeliveries due at one instant in reverse order of their return, which
    swaps two that were returned one by one; here they keep their arrival order.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(key=due_order)
