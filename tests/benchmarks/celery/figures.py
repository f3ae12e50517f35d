"""What is measured, what it should reach, and how one figure is judged."""

from __future__ import annotations

from tests.benchmarks.store.figures import Judged

#: Measure to the least ratio to Redis's rate.
AT_LEAST = {
    "drain_solo": 3.0,
    "drain_prefork": 2.5,
    "drain_solo_late": 2.5,
    "drain_prefork_late": 2.5,
}
#: Measure to the greatest ratio to its limit: Redis's time, with what the mark adds to that.
AT_MOST = {
    "delay_in_atomic": 1.0,
    "delay_alone": 1.0,
    "pickup_p50": 1.0,
    "eta_claim": 1.05,
    "start_to_first_task": 1.0,
}
#: Measure to the greatest value.
BOUNDS = {"eta_worker_memory": 5.0}
NAMES = (
    *AT_LEAST,
    "delay_in_atomic",
    "delay_alone",
    "pickup_p50",
    "eta_worker_memory",
    "eta_claim",
    "start_to_first_task",
)


def judged(
    name: str, value: float, unit: str, *, limit: float | None = None, runs: tuple[float, ...] = ()
) -> Judged:
    """Return the figure with its ratio and whether it reaches its target."""
    target = (AT_LEAST | AT_MOST | BOUNDS)[name]
    from django_mq.benchmarks.measures import Measure  # needs settings

    return Judged(Measure(name, value, unit, limit, runs), target, name in AT_LEAST)
