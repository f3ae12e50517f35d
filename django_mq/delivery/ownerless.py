"""What a session asks and tells where no owner has said otherwise: it has neither consumers nor slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_mq.stores.records import Instructions


def unknown_slots() -> tuple[int | None, int | None]:
    """How many messages are being handled, and how many could be."""
    return None, None


def nobody_obeys(_: Instructions) -> None:
    """What is done about instructions."""


def nobody_waits(_: float) -> None:
    """What is done about due times."""


def nothing_to_mind() -> None:
    """What there is to mind for a session whose owner has claimed nothing ahead."""
