"""A process of a peer, for tests/benchmarks/pick_ups.py: python pick_up.py PEER DATABASE_URL work|publish.

It says "ready". For each line of its input, the publisher publishes a message and writes the moment just before;
the worker writes when it begins one.
"""

# Its libraries are installed where it runs, not where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logging.disable(logging.WARNING)


def say(what: object) -> None:
    """Write a line for the process that asks."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def publish_each(publish: Callable[[], Awaitable[object]]) -> None:
    """Publish a message for each line of the input, until it ends."""
    say("ready")
    while await asyncio.to_thread(sys.stdin.readline):
        begin = time.perf_counter()
        await publish()
        say(begin)


async def procrastinate(url: str, role: str) -> None:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url))

    @app.task(queue="peer", name="arrive")
    async def arrive() -> None:
        say(time.perf_counter())

    async with app.open_async():
        if role == "publish":
            await publish_each(arrive.defer_async)
            return
        await app.schema_manager.apply_schema_async()
        say("ready")
        await app.run_worker_async(install_signal_handlers=False)


async def pgqueuer(url: str, role: str) -> None:
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    driver = AsyncpgDriver(await asyncpg.connect(url))
    queries = Queries(driver)
    if role == "publish":
        await publish_each(lambda: queries.enqueue("arrive", b"{}"))
        return
    await queries.install()
    worker = PgQueuer(driver)

    @worker.entrypoint("arrive")
    async def arrive(_: object) -> None:
        say(time.perf_counter())

    say("ready")
    await worker.qm.run()


async def oban(url: str, role: str) -> None:
    from oban import Oban, worker
    from oban.schema import install_sql
    from psycopg_pool import AsyncConnectionPool

    @worker(queue="peer")
    class Arrive:
        async def process(self, _: object) -> None:
            say(time.perf_counter())

    async with AsyncConnectionPool(url, kwargs={"autocommit": True}, open=False) as pool:
        if role == "publish":
            async with Oban(pool=pool):
                await publish_each(lambda: Arrive.enqueue({}))
            return
        async with pool.connection() as connection:
            await connection.execute(install_sql())
        async with Oban(pool=pool, queues={"peer": 10}):
            say("ready")
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
