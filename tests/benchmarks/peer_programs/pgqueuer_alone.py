"""pgqueuer: enqueue in batches of 1,000, drain by one process in batches of 1,000, over asyncpg."""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import time

import asyncpg
from common import (
    BATCH,
    PATIENCE_SECONDS,
    PAUSE_SECONDS,
    SAMPLES,
    SINGLES,
    WARM_UP,
    Stopwatch,
    answer,
    batches,
    given,
)
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

BODY = b'{"n":12345}'


async def publish(queries: Queries, amount: int) -> tuple[float, float]:
    watch = Stopwatch()
    for _ in range(SINGLES):
        await queries.enqueue("nothing", BODY)
    one = watch.rate(SINGLES)
    watch = Stopwatch()
    for batch in batches(amount - SINGLES):
        await queries.enqueue(["nothing"] * len(batch), [BODY] * len(batch), [0] * len(batch))
    return one, watch.rate(amount - SINGLES)


async def drained(url: str, amount: int) -> float:
    worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))

    @worker.entrypoint("nothing")
    async def nothing(_: object) -> None:
        """Do nothing."""

    watch = Stopwatch()
    await worker.qm.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
    return watch.rate(amount)


async def pick_ups(url: str, queries: Queries) -> list[float]:
    worker, arrived, waits = PgQueuer(AsyncpgDriver(await asyncpg.connect(url))), asyncio.Queue(), []

    @worker.entrypoint("arrive")
    async def arrive(_: object) -> None:
        arrived.put_nowait(time.perf_counter())

    running = asyncio.create_task(worker.qm.run())
    for _ in range(SAMPLES + WARM_UP):
        begin = time.perf_counter()
        await queries.enqueue("arrive", BODY)
        waits.append((await asyncio.wait_for(arrived.get(), PATIENCE_SECONDS) - begin) * 1000)
        await asyncio.sleep(PAUSE_SECONDS)
    worker.qm.shutdown.set()
    await running
    return waits[WARM_UP:]


async def run(url: str, amount: int) -> None:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await queries.install()
    one, many = await publish(queries, amount)
    drain = await drained(url, amount)
    answer(one=one, many=many, drain=drain, waits=await pick_ups(url, queries))


if __name__ == "__main__":
    asyncio.run(run(given()[0], given()[2]))
