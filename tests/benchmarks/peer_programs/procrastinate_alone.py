"""Procrastinate: defer in batches of 1,000, drain by one process with ten jobs at a time, over psycopg."""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

import procrastinate
from common import PATIENCE_SECONDS, PAUSE_SECONDS, SAMPLES, SINGLES, WARM_UP, Stopwatch, answer, batches, given

CONCURRENCY = 10
# It would warn of an app in the main module.
logging.getLogger("procrastinate").setLevel(logging.ERROR)
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=given()[0]))
arrived: asyncio.Queue[float] = asyncio.Queue()


@app.task(queue="peer", name="nothing")
async def nothing(n: int) -> None:
    """Do nothing."""


@app.task(queue="peer", name="arrive")
async def arrive() -> None:
    arrived.put_nowait(time.perf_counter())


async def publish(amount: int) -> tuple[float, float]:
    watch = Stopwatch()
    for number in range(SINGLES):
        await nothing.defer_async(n=number)
    one = watch.rate(SINGLES)
    watch = Stopwatch()
    for batch in batches(amount - SINGLES):
        await nothing.batch_defer_async(*({"n": number} for number in batch))
    return one, watch.rate(amount - SINGLES)


async def drained(amount: int) -> float:
    watch = Stopwatch()
    await app.run_worker_async(wait=False, concurrency=CONCURRENCY, listen_notify=False)
    return watch.rate(amount)


async def pick_ups() -> list[float]:
    waits = []
    running = asyncio.create_task(app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False))
    for _ in range(SAMPLES + WARM_UP):
        begin = time.perf_counter()
        await arrive.defer_async()
        waits.append((await asyncio.wait_for(arrived.get(), PATIENCE_SECONDS) - begin) * 1000)
        await asyncio.sleep(PAUSE_SECONDS)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return waits[WARM_UP:]


async def run(amount: int) -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        one, many = await publish(amount)
        drain = await drained(amount)
        answer(one=one, many=many, drain=drain, waits=await pick_ups())


if __name__ == "__main__":
    asyncio.run(run(given()[2]))
