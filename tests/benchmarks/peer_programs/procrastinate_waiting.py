"""Procrastinate: jobs that wait, in one process with as many at a time as there are slots, over psycopg."""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging

import procrastinate
from common import WAIT_SECONDS, Stopwatch, answer_waiting, batches, given_waiting

URL, AMOUNT, SLOTS = given_waiting()
# It would warn of an app in the main module.
logging.getLogger("procrastinate").setLevel(logging.ERROR)
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL))


@app.task(queue="peer", name="wait")
async def wait(n: int) -> None:
    """Wait."""
    await asyncio.sleep(WAIT_SECONDS)


async def run() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for batch in batches(AMOUNT):
            await wait.batch_defer_async(*({"n": number} for number in batch))
        watch = Stopwatch()
        await app.run_worker_async(wait=False, concurrency=SLOTS, listen_notify=False)
        answer_waiting(watch.rate(AMOUNT))


if __name__ == "__main__":
    asyncio.run(run())
