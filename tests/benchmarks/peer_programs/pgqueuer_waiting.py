"""pgqueuer: jobs that wait, in one process with as many at a time as there are slots, over asyncpg."""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio

import asyncpg
from common import WAIT_SECONDS, Stopwatch, answer_waiting, batches, given_waiting
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

BODY = b'{"n":12345}'


async def run(url: str, amount: int, slots: int) -> None:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await queries.install()
    for batch in batches(amount):
        await queries.enqueue(["wait"] * len(batch), [BODY] * len(batch), [0] * len(batch))
    worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))

    @worker.entrypoint("wait")
    async def wait(_: object) -> None:
        await asyncio.sleep(WAIT_SECONDS)

    watch = Stopwatch()
    # A batch may be half of the slots at most.
    await worker.qm.run(batch_size=slots // 2, max_concurrent_tasks=slots, mode=QueueExecutionMode.drain)
    answer_waiting(watch.rate(amount))


if __name__ == "__main__":
    asyncio.run(run(*given_waiting()))
