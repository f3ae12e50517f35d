"""What idle workers cost: statements, and processor time, of four workers that have nothing to do."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from django_mq.benchmarks.measures import QUEUE, Measure
from django_mq.delivery.consumer.handlers import Handler
from tests.benchmarks.store.child import side_by_side
from tests.benchmarks.store.waking import CountingWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

    from tests.benchmarks.store.environment import Environment

WORKERS = 4
MINUTE = 60.0
#: A worker that has just started looks around; counting begins after so long, in seconds.
SETTLE_SECONDS = 2.0


def measure(environment: Environment) -> Iterator[Measure]:
    """Yield the statements of a minute, BEGIN and COMMIT included; a quick run looks at a part of one."""
    seconds = environment.amount(60, 5)
    found = side_by_side("idle", environment.alias, WORKERS, seconds=seconds)
    busiest = max(item["processor"] for item in found)
    environment.say(f"an idle worker takes {100 * busiest / seconds:.2f} % of a core at most")
    statements = [item["statements"] * MINUTE / seconds for item in found]
    yield Measure("idle_statements", sum(statements), "", runs=statements)


def prepare_worker(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return the work of a process that has nothing to do for so long, and counts what it asks the database."""
    from django.db.backends.signals import connection_created

    statements: dict[str, int] = {}

    def count(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        statements[sql] = statements.get(sql, 0) + 1
        return execute(sql, *rest)

    def watch(connection: BaseDatabaseWrapper, **_: Any) -> None:
        connection.execute_wrappers.append(count)

    connection_created.connect(watch, weak=False)
    handler = Handler(queue=QUEUE, function=lambda _: None, credit=20, time_limit_seconds=None)
    worker = CountingWorker([handler], threads=1, using=order["alias"])

    def work() -> dict[str, Any]:
        thread = threading.Thread(target=worker.run)
        thread.start()
        time.sleep(SETTLE_SECONDS)
        statements.clear()
        # Claims pass by Django's wrappers, each as one statement.
        claims, processor = worker.claims, time.process_time()
        time.sleep(order["seconds"])
        asked = sum(statements.values()) + worker.claims - claims
        answer = {"statements": asked, "processor": time.process_time() - processor}
        worker.stop()
        thread.join()
        return answer

    return work
