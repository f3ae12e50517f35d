"""How values look in MariaDB and MySQL: times are UTC without saying so, ids are hex digits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Some six thousand years: later than that the database's calendar ends, and its answer is null.
LONGEST_SECONDS = 2e11


def parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    """Fit a statement's parameters to the driver."""
    return {name: _fitted(name, value) for name, value in params.items()}


def _fitted(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return value or [None]  # an empty list is no SQL; null is equal to nothing
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
    if isinstance(value, UUID):
        return value.hex
    if name.endswith("seconds") and value is not None:
        return min(value, LONGEST_SECONDS)
    return value


def time_of(value: datetime | None) -> datetime | None:
    """Return the aware time of a column."""
    return value and value.replace(tzinfo=UTC)
