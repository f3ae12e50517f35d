"""Procrastinate: defer in batches of 1,000, drain by one process with ten jobs at a time, over psycopg."""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import json
import sys
import time

import procrastinate

BATCH, CONCURRENCY = 1000, 10


async def run(url: str, amount: int) -> dict[str, float]:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(queue="peer", name="nothing")
    async def nothing(n: int) -> None:
        """Do nothing."""

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        begin = time.perf_counter()
        for start in range(0, amount, BATCH):
            await nothing.batch_defer_async(*({"n": n} for n in range(start, min(start + BATCH, amount))))
        published = amount / (time.perf_counter() - begin)
        begin = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=CONCURRENCY, listen_notify=False)
        drained = amount / (time.perf_counter() - begin)
    return {"publish": published, "drain": drained}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(run(sys.argv[1], int(sys.argv[3])))) + "\n")
