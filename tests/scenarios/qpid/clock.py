"""The clock of a scenario: whole milliseconds that pass when a step says so.

Qpid compares strictly: at the very millisecond of its end a message is not expired, and at
that of its beginning it is still held. The engine includes the instant. Half a millisecond
later no step can look, so that is where such times are put.
"""

from typing import Final

_MILLISECONDS: Final = 1000


def until(milliseconds: float) -> float:
    """The seconds in which so many milliseconds have passed entirely."""
    return (milliseconds + 0.5) / _MILLISECONDS


class Clock:
    """Time stands still until it is advanced."""

    def __init__(self) -> None:
        self._milliseconds = 0.0

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._milliseconds / _MILLISECONDS

    def advance(self, milliseconds: float) -> None:
        """Let so much time pass."""
        self._milliseconds += milliseconds

    def at(self, milliseconds: float) -> float:
        """The instant at which so much time has passed entirely since the beginning."""
        return until(milliseconds)

    def after(self, milliseconds: float) -> float:
        """The instant at which so much time has passed entirely."""
        return until(self._milliseconds + milliseconds)
