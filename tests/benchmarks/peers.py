"""The same work done by peers, in the same run: ``python -m tests.benchmarks.peers [--amount N]``.

Peers come from PyPI into an environment that is thrown away. Each gets a new database on the server that
DATABASE_URL names (or that the tests would start), and Redis. What the figures do not say: docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from tests.services.environment import Services

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(__file__).parent / "peer_programs"
ROOT = Path(__file__).parents[2]
DATABASE = "mq_bench_peers"
PATIENCE_SECONDS = 1800
#: Whoever asks peers for fewer messages gets a quick look at django_mq, too.
QUICK_BELOW = 20_000


@dataclass(frozen=True)
class Peer:
    """A program, and what it needs from PyPI."""

    name: str
    program: str
    needs: tuple[str, ...]


PEERS = (
    Peer("Celery on Redis, prefork, 2 processes", "celery_on_redis.py", ("celery[redis]",)),
    Peer("pgqueuer, 1 process", "pgqueuer_alone.py", ("pgqueuer", "asyncpg")),
    Peer("procrastinate, 1 process", "procrastinate_alone.py", ("procrastinate", "psycopg[binary]")),
)


def main() -> None:
    """Install the peers, let each do the work, and print a table."""
    parser = argparse.ArgumentParser(description="Publish and drain with peers, and with django_mq, in one run.")
    parser.add_argument("--amount", type=int, default=20_000, help="Messages that each publishes and drains.")
    parser.add_argument(
        "--python", help="An interpreter that has the peers already; otherwise they are installed."
    )
    options = parser.parse_args()
    services = Services()
    try:
        database, redis = services.url("postgresql"), services.url("redis")
        with tempfile.TemporaryDirectory() as folder:
            python = options.python or install(Path(folder))
            rows = [(peer.name, run(peer, python, database, redis, options.amount)) for peer in PEERS]
        rows.append(("django_mq, 1 process", run_ours(database, quick=options.amount < QUICK_BELOW)))
    finally:
        services.close()
    lines = ["| | publish, per second | drain, per second |", "|---|---|---|"]
    lines += [f"| {name} | {figures['publish']:,.0f} | {figures['drain']:,.0f} |" for name, figures in rows]
    sys.stdout.write("\n".join(lines) + "\n")


def install(folder: Path) -> str:
    """Make an environment with all peers and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, stdin=subprocess.DEVNULL)
    python = str(folder / "bin" / "python")
    needs = [need for peer in PEERS for need in peer.needs]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *needs], check=True, stdin=subprocess.DEVNULL)
    return python


@contextmanager
def new_database(url: str, name: str = DATABASE) -> Iterator[str]:
    """Make a database on the server, yield its URL, and drop it."""
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(drop)
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield url.rpartition("/")[0] + f"/{name}"
        connection.execute(drop)


def run(peer: Peer, python: str, database: str, redis: str, amount: int) -> dict[str, float]:
    """Let one peer do the work."""
    with new_database(database) as url:
        command = [python, str(PROGRAMS / peer.program), url, redis, str(amount)]
        return _figures(command, _without_django())


def run_ours(database: str, *, quick: bool) -> dict[str, float]:
    """Return what mq_bench measures, in this environment."""
    with new_database(database) as url, tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings.postgresql",
            "DATABASE_URL": url,
            "PYTHONPATH": str(ROOT),
        }
        django = [sys.executable, "-m", "django"]
        subprocess.run([*django, "migrate", "-v0"], env=environment, check=True, stdin=subprocess.DEVNULL)
        file = Path(folder) / "figures.json"
        bench = [*django, "mq_bench", "publish_many", "drain_one", "--repeats", "1", "--json", str(file)]
        bench += ["--quick"] if quick else []
        subprocess.run(bench, env=environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        values = {measure["name"]: measure["value"] for measure in json.loads(file.read_text())["measures"]}
    return {"publish": values["publish_many"], "drain": values["drain_one"]}


def _without_django() -> dict[str, str]:
    """Return the environment, without what means nothing to a peer."""
    return {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}


def _figures(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    done = subprocess.run(
        command,
        env=environment,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
