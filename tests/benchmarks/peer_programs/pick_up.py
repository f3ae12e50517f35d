"""One idle worker of a peer, which is asked for one pick-up at a time: python pick_up.py PEER DATABASE_URL.

It says "ready" when its worker is idle. For each line of its input it publishes a message, and writes how many
milliseconds passed from just before that to the first line of the handler.
"""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import TYPE_CHECKING

from common import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logging.disable(logging.WARNING)
arrived: asyncio.Queue[float] = asyncio.Queue()


async def serve(publish: Callable[[], Awaitable[object]]) -> None:
    """Answer each line with the milliseconds of a pick-up, until the input ends."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while await asyncio.to_thread(sys.stdin.readline):
        begin = time.perf_counter()
        await publish()
        at = await asyncio.wait_for(arrived.get(), PATIENCE_SECONDS)
        sys.stdout.write(f"{(at - begin) * 1000}\n")
        sys.stdout.flush()


async def procrastinate(url: str) -> None:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url))

    @app.task(queue="peer", name="arrive")
    async def arrive() -> None:
        arrived.put_nowait(time.perf_counter())

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        running = asyncio.create_task(app.run_worker_async(install_signal_handlers=False))
        await serve(arrive.defer_async)
        running.cancel()


async def pgqueuer(url: str) -> None:
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await queries.install()
    worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))

    @worker.entrypoint("arrive")
    async def arrive(_: object) -> None:
        arrived.put_nowait(time.perf_counter())

    running = asyncio.create_task(worker.qm.run())
    await serve(lambda: queries.enqueue("arrive", b"{}"))
    worker.qm.shutdown.set()
    await running


async def oban(url: str) -> None:
    from oban import Oban, worker
    from oban.schema import install_sql
    from psycopg_pool import AsyncConnectionPool

    @worker(queue="peer")
    class Arrive:
        async def process(self, _: object) -> None:
            arrived.put_nowait(time.perf_counter())

    async with AsyncConnectionPool(url, kwargs={"autocommit": True}, open=False) as pool:
        async with pool.connection() as connection:
            await connection.execute(install_sql())
        async with Oban(pool=pool, queues={"peer": 10}):
            await serve(lambda: Arrive.enqueue({}))


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](sys.argv[2]))
