"""What it costs to write a result beside normal work: tasks that keep theirs, less tasks that ignore theirs."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from django_mq.benchmarks.measures import take_turns
from tests.benchmarks.results.figures import judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.results.bench import ResultBench
    from tests.benchmarks.store.figures import Judged

WORKER = ("-P", "solo")
#: Of django-celery-results, which is slower, so many times fewer tasks are run.
PART = 10


def measure(bench: ResultBench, name: str) -> Iterator[Judged]:
    """Yield the cost of a result, beside that of django-celery-results."""
    amount = bench.amount(20_000, 1000)
    ours, theirs = bench.kept if name == "result_cost_kept" else (bench.ours, bench.other)
    tasks = take_turns(
        bench.repeats,
        none=lambda: ours.drain("bench.answer_nobody", amount, *WORKER) / amount,
        ours=lambda: ours.drain("bench.answer", amount, *WORKER) / amount,
        theirs=lambda: theirs.drain("bench.answer", amount // PART, *WORKER) / (amount // PART),
    )
    middle = {side: median(values) * 1e6 for side, values in tasks.items()}
    bench.say(f"{name}: " + ", ".join(f"{side} {value:,.0f} µs a task" for side, value in middle.items()))
    costs = tuple(value * 1e6 - middle["none"] for value in tasks["ours"])
    limit = middle["theirs"] - middle["none"]
    yield judged(name, middle["ours"] - middle["none"], "µs", limit=limit, runs=costs)
