"""When a queue delivers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from datetime import datetime

Moment = TypeVar("Moment", float, "datetime")


def is_paused(paused: bool, paused_until: Moment | None, now: Moment) -> bool:
    """Return whether a queue is paused at ``now``.

    A pause with an end is over at that instant; its flag stays. SQL has the same rule in ``_paused``.
    """
    return paused and (paused_until is None or now < paused_until)
