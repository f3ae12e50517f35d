"""The percentiles of what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` of the values lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
