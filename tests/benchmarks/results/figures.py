"""What is measured, and what it should reach."""

from __future__ import annotations

from tests.benchmarks.store.figures import Judged

#: Measure to the greatest ratio to its limit.
AT_MOST = {
    "get_prefork": 1.5,
    "get_solo": 1.5,
    "call": 1.5,
    "chord_1000": 1.0,
    "chord_10000": 1.0,
    "result_cost": 0.5,
    "result_cost_kept": 0.5,
}
#: Measure to the greatest value.
BOUNDS = {"chord_1000_end": 1.0, "chord_10000_end": 1.0}
#: What can be asked for: the end of a chord comes with the chord.
NAMES = tuple(AT_MOST)


def judged(
    name: str, value: float, unit: str, *, limit: float | None = None, runs: tuple[float, ...] = ()
) -> Judged:
    """Return the figure with its ratio and whether it reaches its target."""
    from django_mq.benchmarks.measures import Measure  # needs settings

    return Judged(Measure(name, value, unit, limit, runs), (AT_MOST | BOUNDS)[name], at_least=False)
