"""One run: the sides, the amounts, and the function that reports progress."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.benchmarks.results.sides import ResultSide


@dataclass(frozen=True)
class ResultBench:
    """What a measuring function is given."""

    ours: ResultSide
    redis: ResultSide
    #: django-celery-results, with the broker of ours.
    other: ResultSide
    #: Ours and that, where Django keeps its connections open.
    kept: tuple[ResultSide, ResultSide]
    #: Small amounts: a look, not a measurement.
    quick: bool
    #: Rounds; the median counts.
    repeats: int

    def amount(self, full: int, quick: int) -> int:
        """Return how many: of a full run, or of a quick one."""
        return quick if self.quick else full

    @staticmethod
    def say(progress: str) -> None:
        """Report progress."""
        sys.stderr.write(f"  {progress}\n")
        sys.stderr.flush()
