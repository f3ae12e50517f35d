"""Every page of the admin over a million messages: ``python -m tests.benchmarks.pages [--json FILE]``.

Each kind of database gets a process of its own, with a database of its own: PostgreSQL on a server made for this
run, SQLite in a file. What is measured is the time from the request to the whole answer, in the process
that serves it: no network, no browser.

``--sweep N`` asks for N lists with filters drawn by chance, instead of the fixed pages, and
``--shape`` makes the messages uneven: all in one queue, all in one state, the rare ones the oldest. ``--unkept``
leaves them as they were just written: no statistics, nothing vacuumed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.services.postgresql import PostgreSQL

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
#: What a page may take, in seconds, and what mq_health may take beyond Django's own start.
TARGET = 0.3
HEALTH_TARGET = 0.2
STORES = ("postgresql", "sqlite")
#: As tests.benchmarks.page_programs.filling knows them.
SHAPES = ("mixed", "one-queue", "ready", "scheduled", "dead", "old-dead")


def main() -> None:
    """Measure, and print a table for each kind of database."""
    parser = argparse.ArgumentParser(description="Measure the pages of the admin over many messages.")
    parser.add_argument("--messages", type=int, default=1_000_000, help="Live messages.")
    parser.add_argument("--history", type=int, help="Finished messages; by default as many as live ones.")
    parser.add_argument("--queues", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=7, help="How often each page is asked for.")
    parser.add_argument("--store", choices=STORES, action="append", help="Only this kind of database.")
    parser.add_argument("--only", default="", help="Only pages whose name contains this.")
    parser.add_argument(
        "--sweep", type=int, default=0, help="So many lists with filters drawn by chance, instead."
    )
    parser.add_argument("--seed", type=int, default=1, help="What chance begins with.")
    parser.add_argument("--shape", choices=SHAPES, default="mixed", help="How the messages are spread.")
    parser.add_argument("--unkept", action="store_true", help="Ask before the database has looked at the rows.")
    parser.add_argument("--json", metavar="FILE", help="Write every figure there.")
    options = parser.parse_args()
    figures = {store: measure(store, options) for store in options.store or STORES}
    for store, found in figures.items():
        rows = f"{found['messages']:,} messages, {found['history']:,} finished, {found['queues']} queues"
        sys.stdout.write(f"\n{store}, {rows}\n\n{table(found['pages'])}\n")
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def measure(store: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one kind of database."""
    history = options.messages if options.history is None else options.history
    numbers = (options.messages, history, options.queues, options.repeats, options.sweep, options.seed)
    arguments = [*map(str, numbers), options.only, options.shape, "unkept" if options.unkept else "kept"]
    with tempfile.TemporaryDirectory() as folder:
        if store == "sqlite":
            return run(store, f"sqlite:///{folder}/pages.sqlite3", arguments)
        with PostgreSQL() as server:
            return run(store, server.url, arguments)


def run(store: str, url: str, arguments: list[str]) -> dict[str, Any]:
    """Run the program that asks for the pages; it writes JSON."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": f"tests.settings.{store}", "DATABASE_URL": url}
    environment |= {"PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-m", "tests.benchmarks.page_programs.requests", *arguments]
    done = subprocess.run(program, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def table(pages: Iterable[dict[str, Any]]) -> str:
    """Return the figures as a table of the documentation, the slowest page first."""
    lines = ["| page | median | slowest | statements | target | |", "|---|---|---|---|---|---|"]
    for page in sorted(pages, key=lambda page: page["median"], reverse=True):
        target = HEALTH_TARGET if page["name"].startswith("mq_health") else TARGET
        met = "met" if page["median"] <= target else "**missed**"
        lines.append(
            f"| {page['name']} | {page['median'] * 1000:,.0f} ms | {page['slowest'] * 1000:,.0f} ms "
            f"| {page['statements']} | {target * 1000:.0f} ms | {met} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
