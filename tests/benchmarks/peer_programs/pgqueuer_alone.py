"""pgqueuer: enqueue in batches of 1,000, drain by one process in batches of 1,000, over asyncpg."""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import json
import sys
import time

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

BATCH = 1000


async def run(url: str, amount: int) -> dict[str, float]:
    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    await queries.install()
    begin = time.perf_counter()
    for start in range(0, amount, BATCH):
        size = min(BATCH, amount - start)
        await queries.enqueue(["nothing"] * size, [b'{"n":12345}'] * size, [0] * size)
    published = amount / (time.perf_counter() - begin)

    worker = PgQueuer(driver)

    @worker.entrypoint("nothing")
    async def nothing(_: object) -> None:
        """Do nothing."""

    begin = time.perf_counter()
    await worker.qm.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
    drained = amount / (time.perf_counter() - begin)
    await queries.uninstall()
    await connection.close()
    return {"publish": published, "drain": drained}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(run(sys.argv[1], int(sys.argv[3])))) + "\n")
