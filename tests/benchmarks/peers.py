"""The same work done by peers, in the same run: ``python -m tests.benchmarks.peers [--amount N] [--rounds N]``.

Peers come from PyPI into an environment that is thrown away. Each gets a new database on the server that
DATABASE_URL names (or that the tests would start), and Redis. They take turns with ``tests.benchmarks``, which
brings the raw loops that all are compared with. Prints the table of docs/benchmarks.md, which also says what
it does not say.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
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
#: With fewer messages for the peers, django_mq is measured with --quick, too.
QUICK_BELOW = 20_000
#: The fewest messages: two thousand are published one by one.
LEAST = 4000
#: Figures of a program, and what ``tests.benchmarks`` calls them.
FIGURES = {
    "one": "publish_one",
    "many": "publish_many",
    "drain": "drain_one",
    "p50": "pickup_p50",
    "p99": "pickup_p99",
}
HEAD = "| | one by one, /s | in batches, /s | drain, /s | pick-up p50, ms | p99, ms |\n|---|---|---|---|---|---|"
#: What a program says of itself; None where it has no such thing.
Figures = dict[str, float | None]


@dataclass(frozen=True)
class Peer:
    """A program, what it needs from PyPI, and what part of the messages are enough for it: some are slow."""

    name: str
    program: str
    needs: tuple[str, ...]
    part: int = 1


PEERS = (
    Peer("Celery on Redis, prefork, 2 processes", "celery_on_redis.py", ("celery[redis]",), 4),
    Peer("pgqueuer, 1 process", "pgqueuer_alone.py", ("pgqueuer", "asyncpg")),
    Peer("procrastinate, 1 process", "procrastinate_alone.py", ("procrastinate", "psycopg[binary]"), 4),
    Peer("django-tasks-db, 1 process", "django_tasks_database.py", ("django-tasks-db[compat]",), 4),
)


def main() -> None:
    """Install the peers, let each do the work, and print a table."""
    options = parse()
    services = Services()
    try:
        database, redis = services.url("postgresql"), services.url("redis")
        with tempfile.TemporaryDirectory() as folder:
            python = options.python or install(Path(folder))
            versions = versions_of(python)
            rounds = [one_round(python, database, redis, options) for _ in range(options.rounds)]
    finally:
        services.close()
    sys.stdout.write(f"{', '.join(versions)}; medians of {options.rounds}.\n\n{table(rounds)}\n")


def parse() -> argparse.Namespace:
    """Return what the caller wants."""
    parser = argparse.ArgumentParser(description="Publish and drain with peers, and with django_mq, in one run.")
    parser.add_argument("--amount", type=int, default=20_000, help="Messages that each publishes and drains.")
    parser.add_argument("--rounds", type=int, default=3, help="Everybody's turns; the median counts.")
    parser.add_argument(
        "--python", help="An interpreter that has the peers already; otherwise they are installed."
    )
    return parser.parse_args()


def one_round(python: str, database: str, redis: str, options: argparse.Namespace) -> dict[str, Figures]:
    """Let everybody work once; return the figures by name, and those of the raw loops."""
    found = {}
    for peer in PEERS:
        sys.stderr.write(f"{peer.name}\n")
        amount = max(options.amount // peer.part, LEAST)
        found[peer.name] = run(peer, python, database, redis, amount)
    sys.stderr.write("django_mq\n")
    ours, raw = run_ours(database, redis, quick=options.amount < QUICK_BELOW)
    return {"PostgreSQL itself, raw loops": raw} | found | {"django_mq, 1 process": ours}


def table(rounds: list[dict[str, Figures]]) -> str:
    """Return the medians as a table; in brackets what they are of the first row's, the raw loops'."""
    medians = {name: {key: median_of(rounds, name, key) for key in FIGURES} for name in rounds[0]}
    raw, *others = medians
    lines = [HEAD, line(raw, medians[raw], {})]
    return "\n".join(lines + [line(name, medians[name], medians[raw]) for name in others])


def median_of(rounds: list[dict[str, Figures]], name: str, key: str) -> float | None:
    """Return the middle one of a figure's values."""
    values = [value for each in rounds if (value := each[name][key]) is not None]
    return statistics.median(values) if values else None


def line(name: str, figures: Figures, raw: Figures) -> str:
    """Return a row of the table."""
    return f"| {name} | " + " | ".join(cell(figures[key], raw.get(key)) for key in FIGURES) + " |"


def cell(value: float | None, limit: float | None) -> str:
    """Return a figure with its ratio."""
    if value is None:
        return "-"
    ratio = f" ({value / limit:.2g})" if limit else ""
    return f"{value:,.0f}{ratio}" if value >= 100 else f"{value:.1f}{ratio}"


def install(folder: Path) -> str:
    """Make an environment with all peers and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, stdin=subprocess.DEVNULL)
    python = str(folder / "bin" / "python")
    needs = [need for peer in PEERS for need in peer.needs]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *needs], check=True, stdin=subprocess.DEVNULL)
    return python


def versions_of(python: str) -> list[str]:
    """Return the names and versions of the peers that are installed there."""
    names = [need.partition("[")[0] for peer in PEERS for need in peer.needs[:1]]
    ask = f"from importlib.metadata import version; [print(name, version(name)) for name in {names}]"
    found = subprocess.run(
        [python, "-c", ask], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    return found.stdout.splitlines()


@contextmanager
def new_database(url: str, name: str = DATABASE) -> Iterator[str]:
    """Make a database on the server, yield its URL, and drop it."""
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(drop)
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield url.rpartition("/")[0] + f"/{name}"
        finally:
            connection.execute(drop)


def run(peer: Peer, python: str, database: str, redis: str, amount: int) -> Figures:
    """Let one peer do the work."""
    with new_database(database) as url:
        command = [python, str(PROGRAMS / peer.program), url, redis, str(amount)]
        return _figures(command, _without_django())


def run_ours(database: str, redis: str, *, quick: bool) -> tuple[Figures, Figures]:
    """Return what ``tests.benchmarks`` measures, in this environment, and the raw loops beside it."""
    with new_database(database) as url, tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.settings.postgresql",
            "DATABASE_URL": url,
            "REDIS_URL": redis,
            "PYTHONPATH": str(ROOT),
        }
        migrate = [sys.executable, "-m", "django", "migrate", "-v0"]
        subprocess.run(migrate, env=environment, check=True, stdin=subprocess.DEVNULL)
        file = Path(folder) / "figures.json"
        bench = [
            sys.executable,
            "-m",
            "tests.benchmarks",
            *FIGURES.values(),
            "--repeats",
            "1",
            "--json",
            str(file),
        ]
        bench += ["--json", str(file), *(["--quick"] if quick else [])]
        subprocess.run(
            bench, env=environment, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        measures = {measure["name"]: measure for measure in json.loads(file.read_text())["measures"]}
    ours, raw = ({key: measures[name][what] for key, name in FIGURES.items()} for what in ("value", "limit"))
    return ours, raw


def _without_django() -> dict[str, str]:
    """Return the environment, without what means nothing to a peer."""
    return {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}


def _figures(command: list[str], environment: dict[str, str]) -> Figures:
    done = subprocess.run(
        command,
        env=environment,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    cuts = quantiles(figures.pop("waits"), n=100)
    return {**figures, "p50": cuts[49], "p99": cuts[98]}


if __name__ == "__main__":
    main()
