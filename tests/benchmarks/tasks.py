"""Tasks of Django's interface that do nothing, beside django-tasks-db: ``python -m tests.benchmarks.tasks``.

Both take turns, with one worker that runs one task at a time, on a new database of the server that DATABASE_URL
names, or that the tests would start. Prints the table of docs/benchmarks.md.
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
from typing import Any, Final

from tests.benchmarks.peers import PATIENCE_SECONDS, PROGRAMS, ROOT, new_database
from tests.services.environment import Services

#: The program and the part of the tasks that is enough for it: the peer is slow.
PEER, OURS, PART = "django_tasks_database.py", "our_tasks.py", 10
NEEDS: Final = ("django-tasks-db[compat]", "psycopg[binary]")
NAMES: Final = {PEER: "django-tasks-db", OURS: "django_mq"}


def main() -> None:
    """Install the peer, let each work in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--amount", type=int, default=20_000, help="Tasks that django_mq runs; the peer a tenth.")
    parser.add_argument("--rounds", type=int, default=3, help="Turns of both; the median counts.")
    parser.add_argument("--python", help="An interpreter that has the peer; otherwise it is installed.")
    options = parser.parse_args()
    services = Services()
    try:
        url = services.url("postgresql")
        with tempfile.TemporaryDirectory() as folder:
            python = options.python or install(Path(folder))
            rounds = [
                {
                    PEER: measure(python, PEER, url, options.amount // PART),
                    OURS: measure(sys.executable, OURS, url, options.amount),
                }
                for _ in range(options.rounds)
            ]
    finally:
        services.close()
    sys.stdout.write(table(rounds))


def install(folder: Path) -> str:
    """Make an environment with the peer and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, stdin=subprocess.DEVNULL)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDS], check=True, stdin=subprocess.DEVNULL)
    return python


def measure(python: str, program: str, server: str, amount: int) -> dict[str, Any]:
    """Run a program on a new database."""
    sys.stderr.write(f"{program}\n")
    with new_database(server) as url:
        environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        if program == OURS:
            ours = {"DJANGO_SETTINGS_MODULE": "tests.settings.postgresql", "DATABASE_URL": url, "REDIS_URL": ""}
            environment |= {**ours, "PYTHONPATH": str(ROOT)}
            migrate = [python, "-m", "django", "migrate", "-v0"]
            subprocess.run(migrate, env=environment, check=True, stdin=subprocess.DEVNULL)
        done = subprocess.run(
            [python, str(PROGRAMS / program), url, "", str(amount)],
            env=environment,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def table(rounds: list[dict[str, dict[str, Any]]]) -> str:
    """Return the medians as a table, with how many times those of the peer they are."""
    lines = ["| | enqueued, /s | run, /s |", "|---|---|---|"]
    medians = {
        program: [statistics.median(each[program][key] for each in rounds) for key in ("one", "drain")]
        for program in NAMES
    }
    for program, values in medians.items():
        cells = [f"{value:,.0f} ({value / peer:.1f})" for value, peer in zip(values, medians[PEER], strict=True)]
        lines.append(f"| {NAMES[program]} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
