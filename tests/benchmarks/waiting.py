"""Async handlers that wait 100 ms, hundreds at a time: ``python -m tests.benchmarks.waiting [--slots 500]``.

django_mq, procrastinate and pgqueuer take turns, one process each, on a new database of the server that
DATABASE_URL names, or that the tests would start. Prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.benchmarks.peer_programs.common import WAIT_SECONDS
from tests.benchmarks.peers import PATIENCE_SECONDS, PROGRAMS, ROOT, new_database
from tests.services.environment import Services

PEERS: Final = {"procrastinate": "procrastinate_waiting.py", "pgqueuer": "pgqueuer_waiting.py"}
NEEDS: Final = ("procrastinate", "psycopg[binary]", "pgqueuer", "asyncpg")
OURS: Final = "our_waiting.py"
#: The least amount: each slot is used several times.
LEAST_TURNS: Final = 8

Figures = dict[str, float]


def main() -> None:
    """Install the peers, let each work in turn, and print a table."""
    options = parse()
    services = Services()
    try:
        url = services.url("postgresql")
        with tempfile.TemporaryDirectory() as folder:
            python = options.python or install(Path(folder))
            rounds = [one_round(python, url, options) for _ in range(options.rounds)]
    finally:
        services.close()
    sys.stdout.write(table(rounds, options.slots))


def parse() -> argparse.Namespace:
    """Return what the caller wants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=500, help="How many handlers wait at a time.")
    parser.add_argument("--amount", type=int, default=20_000, help="Messages that each handles.")
    parser.add_argument("--rounds", type=int, default=3, help="Everybody's turns; the median counts.")
    parser.add_argument("--python", help="An interpreter that has the peers; otherwise they are installed.")
    options = parser.parse_args()
    if options.amount < LEAST_TURNS * options.slots:
        parser.error(f"--amount is at least {LEAST_TURNS} for each slot.")
    return options


def install(folder: Path) -> str:
    """Make an environment with the peers and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, stdin=subprocess.DEVNULL)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDS], check=True, stdin=subprocess.DEVNULL)
    return python


def one_round(python: str, url: str, options: argparse.Namespace) -> dict[str, Figures]:
    """Let each handle all messages once; return the figures by name."""
    found = {"django_mq": measure(sys.executable, OURS, url, options, is_ours=True)}
    return found | {name: measure(python, program, url, options) for name, program in PEERS.items()}


def measure(
    python: str, program: str, server: str, options: argparse.Namespace, *, is_ours: bool = False
) -> Figures:
    """Run a program on a new database."""
    sys.stderr.write(f"{program}\n")
    with new_database(server) as url:
        environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        if is_ours:
            ours = {"DJANGO_SETTINGS_MODULE": "tests.settings.postgresql", "DATABASE_URL": url, "REDIS_URL": ""}
            environment |= {**ours, "PYTHONPATH": str(ROOT)}
            migrate = [python, "-m", "django", "migrate", "-v0"]
            subprocess.run(migrate, env=environment, check=True, stdin=subprocess.DEVNULL)
        done = subprocess.run(
            [python, str(PROGRAMS / program), url, str(options.amount), str(options.slots)],
            env=environment,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def table(rounds: list[dict[str, Figures]], slots: int) -> str:
    """Return the medians as a table, with the share of what so many slots could do."""
    limit = slots / WAIT_SECONDS
    lines = [
        f"Limit: {limit:,.0f}/s, {slots} slots of {WAIT_SECONDS * 1000:.0f} ms.",
        "",
        "| | /s | of the limit |",
    ]
    lines.append("|---|---|---|")
    for name in rounds[0]:
        rate = statistics.median(each[name]["rate"] for each in rounds)
        lines.append(f"| {name} | {rate:,.0f} | {rate / limit:.2f} |")
    memory = statistics.median(each["django_mq"]["kilobytes"] for each in rounds)
    return "\n".join([*lines, "", f"Memory of django_mq for each handler that waits: {memory:.1f} KB.", ""])


if __name__ == "__main__":
    main()
