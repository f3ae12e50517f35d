"""Wake-ups: sixteen idle worker sessions, and messages that come one by one.

The sessions are in processes of their own, as they are on a site. Each counts how often a
hint woke it and how many claims it sent; looks that follow from no hint count as well.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from django_mq.benchmarks.measures import QUEUE, Measure
from django_mq.delivery.consumer.handlers import Handler
from django_mq.delivery.consumer.worker import Worker
from django_mq.delivery.publisher import publish
from django_mq.models import History
from tests.benchmarks.store.child import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set

    from django_mq.stores.records import ClaimRequest, ClaimResult
    from tests.benchmarks.store.environment import Environment

SESSIONS = 16
PROCESSES = 2
#: Messages that are not handled after so long, in seconds, end the benchmark.
PATIENCE_SECONDS = 60.0
#: Time between two looks at whether all are handled, in seconds.
LOOK_SECONDS = 0.05
#: Sessions that have just opened look around; counting begins when they have been idle for so long, in seconds.
SETTLE_SECONDS = 2.0


def measure(environment: Environment) -> Iterator[Measure]:
    """Yield wake-ups and claims per message, where hints reach other processes."""
    if not environment.redis_url:
        return
    amount = environment.amount(1000, 200)
    with children("wait", environment.alias, PROCESSES, sessions=SESSIONS // PROCESSES) as waiting:
        for child in waiting:
            child.tell("go")
            child.hear()
        for _ in range(amount):
            publish(QUEUE, {"n": 1}, using=environment.alias)
        _wait_for(environment.alias, amount)
        for child in waiting:
            child.tell("stop")
        counted = [child.result() for child in waiting]
    for name, what in (("wakeups_per_message", "wakeups"), ("claims_per_message", "claims")):
        value = sum(item[what] for item in counted) / amount
        yield Measure(name, value, "", runs=[value])


def _wait_for(alias: str, amount: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    history = History.objects.using(alias).filter(queue_name=QUEUE)
    while history.count() < amount:
        if time.monotonic() > end:
            raise RuntimeError("The messages of the benchmark were not handled in time.")
        time.sleep(LOOK_SECONDS)


class CountingWorker(Worker):
    """A worker that counts what wakes it, and its claims."""

    wakeups = claims = 0

    def _open_shift(self) -> None:
        super()._open_shift()
        settle_and_claim, hear = self.session.settle_and_claim, self.runtime.hear

        def counted(request: ClaimRequest | None) -> ClaimResult:
            self.claims += request is not None
            return settle_and_claim(request)

        def heard() -> Set[str]:
            topics = hear()
            self.wakeups += any(topic[:2] in {"n:", "b:", "q:"} or topic == "*" for topic in topics)
            return topics

        self.session.settle_and_claim = counted  # type: ignore[method-assign]
        self.runtime.hear = heard  # type: ignore[method-assign]


def prepare_sessions(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that has so many idle sessions until it is told to stop."""
    handler = Handler(queue=QUEUE, function=lambda _: None, credit=20, time_limit_seconds=None)
    workers = [CountingWorker([handler], threads=1, using=order["alias"]) for _ in range(order["sessions"])]
    threads = [threading.Thread(target=worker.run) for worker in workers]

    def work() -> dict[str, Any]:
        for thread in threads:
            thread.start()
        time.sleep(SETTLE_SECONDS)
        before = _counts(workers)
        _answer("idle")
        _ask()
        after = _counts(workers)
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join()
        return {name: after[name] - before[name] for name in after}

    return work


def _counts(workers: list[CountingWorker]) -> dict[str, int]:
    return {
        "wakeups": sum(worker.wakeups for worker in workers),
        "claims": sum(worker.claims for worker in workers),
    }


def _answer(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what the parent reads


def _ask() -> None:
    input()
