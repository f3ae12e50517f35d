"""django_mq: async handlers that wait, in one process, and the memory of each that waits."""

from __future__ import annotations

import asyncio
import gc
import threading
from functools import partial
from typing import Any

import django
from common import WAIT_SECONDS, Stopwatch, answer_waiting, batches, given_waiting

#: How many handlers wait at a time when their memory is measured.
CROWD = 2000
PATIENCE_SECONDS = 120.0


def run(amount: int, slots: int) -> None:
    from django_mq.api import publish_many
    from django_mq.coroutines.pool import EventLoopPool
    from django_mq.delivery.consumer.garbage_collector import collect_less_often
    from django_mq.delivery.consumer.handlers import Handler, Way
    from django_mq.delivery.consumer.heartbeat import resident_bytes
    from django_mq.delivery.consumer.worker import Worker
    from django_mq.delivery.queues import declare
    from django_mq.stores.registry import shared_store

    def worker_of(function: Any, slots: int) -> Worker:
        handler = Handler(queue="waits", function=function, credit=0, time_limit_seconds=None, way=Way.EVENT_LOOP)
        return Worker([handler], threads=slots, pool=partial(EventLoopPool, threads=4))

    async def wait(_: Any) -> None:
        await asyncio.sleep(WAIT_SECONDS)

    declare(shared_store("default"), "waits")
    for batch in batches(amount):
        publish_many([("waits", {"n": number}) for number in batch])
    collect_less_often()
    watch = Stopwatch()
    worker_of(wait, slots).run(until_empty=True)
    rate = watch.rate(amount)

    ends: list[asyncio.Event] = []
    all_wait = threading.Event()

    async def crowd(_: Any) -> None:
        end = asyncio.Event()
        ends.append(end)
        if len(ends) == CROWD:
            all_wait.set()
        await end.wait()

    for batch in batches(CROWD):
        publish_many([("waits", {"n": number}) for number in batch])
    worker = worker_of(crowd, CROWD)
    gc.collect()
    before = resident_bytes() or 0
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert all_wait.wait(PATIENCE_SECONDS)
    gc.collect()
    used = (resident_bytes() or 0) - before
    pool: Any = worker._pool
    for end in ends:
        pool._loop.call_soon_threadsafe(end.set)
    worker.stop()
    thread.join()
    answer_waiting(rate, kilobytes=used / CROWD / 1024)


if __name__ == "__main__":
    django.setup()
    run(*given_waiting()[1:])
