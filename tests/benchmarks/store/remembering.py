"""A worker's memory: with an empty queue, and with millions of ready messages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django_mq.benchmarks.measures import QUEUE, Measure
from django_mq.delivery.consumer.handlers import Handler
from django_mq.delivery.consumer.worker import Worker
from tests.benchmarks.store.child import children
from tests.benchmarks.store.filling import Filler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_mq.delivery.codecs import ReceivedMessage
    from tests.benchmarks.store.environment import Environment

#: A worker has become as large as it will after so many messages.
SETTLED_IN = 20_000
MIB = 1024 * 1024


def measure(environment: Environment) -> Iterator[Measure]:
    """Yield how much larger a worker is with ten million ready messages than with as many as it handles."""
    if not environment.is_large:
        return
    handled = environment.amount(SETTLED_IN, 4000)
    filler = Filler(environment.alias, environment.say)
    filler.fill(handled)
    small = _resident(environment.alias, handled)
    filler.fill(environment.amount(10_000_000, 100_000))
    filler.settle_down()
    large = _resident(environment.alias, handled)
    yield Measure("worker_memory_mib", (large - small) / MIB, "MiB", runs=(small / MIB, large / MIB))


def _resident(alias: str, handled: int) -> int:
    with children("remember", alias, 1, handled=handled) as (child,):
        child.tell("go")
        return int(child.result()["resident"])


def prepare_worker(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that handles so many messages, and says how large it has become."""
    left = order["handled"]

    def count(_: ReceivedMessage) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            worker.stop()

    handler = Handler(queue=QUEUE, function=count, credit=100, time_limit_seconds=None)
    worker = Worker([handler], threads=1, using=order["alias"])

    def work() -> dict[str, Any]:
        end = time.monotonic()
        worker.run()
        return {"seconds": time.monotonic() - end, "resident": _resident_bytes()}

    return work


def _resident_bytes() -> int:
    """Return the most memory that this process has had in use."""
    import resource
    import sys

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
