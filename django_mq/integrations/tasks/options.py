"""``TASKS[...]["OPTIONS"]`` of our backend."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from django_mq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How tasks are fed to workers, and how long their results are kept."""

    #: Messages that a worker holds for each queue at a time.
    CREDIT: int = 20
    #: A call that takes longer counts as failed; None = no limit.
    TIME_LIMIT_SECONDS: float | None = None
    #: Whether a task, its result and its acknowledgement are one transaction.
    TRANSACTIONAL: bool = False
    #: How long a result is kept after the last attempt, in days.
    RESULT_DAYS: float = 7.0

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Options:
        """Return the options. Raises ConfigurationError, which names what is wrong."""
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(given) - set(known)):
            raise ConfigurationError(f"OPTIONS has no {unknown[0]!r}; it may have {', '.join(known)}.")
        options = cls(**given)
        if not _is_number(options.CREDIT) or options.CREDIT < 1:
            raise ConfigurationError(f"CREDIT is {options.CREDIT!r}; use 1 or more.")
        limit = options.TIME_LIMIT_SECONDS
        if limit is not None and (not _is_number(limit) or limit <= 0):
            raise ConfigurationError(f"TIME_LIMIT_SECONDS is {limit!r}; use a number of seconds, or None.")
        if not _is_number(options.RESULT_DAYS) or not 0 <= options.RESULT_DAYS <= 36500:
            raise ConfigurationError(f"RESULT_DAYS is {options.RESULT_DAYS!r}; use 0 to 36500 days.")
        return options


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
