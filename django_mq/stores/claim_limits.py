"""The limits that extensions add to the claims of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq import conf

if TYPE_CHECKING:
    from django_mq.seams.limits import ClaimLimit


def limits_of(queue: str) -> list[ClaimLimit]:
    """Return the limits that claims of the queue ask."""
    return [each for each in conf.extensions().limits if each.is_for(queue)]


def holds_runs(queue: str) -> bool:
    """Whether a task of the queue that is acknowledged when it begins has to be told until it ends."""
    return any(each.is_for(queue) and each.holds_runs(queue) for each in conf.extensions().limits)
