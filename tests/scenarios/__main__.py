"""The command: ``python -m tests.scenarios [--store KIND] [FILE...]``."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.scenarios.environment import ENGINE, Environment
from tests.scenarios.errors import ScenarioError
from tests.scenarios.judging import Verdict
from tests.scenarios.reporting import line, summary
from tests.scenarios.running import run_file
from tests.scenarios.stored.opening import KINDS, opened
from tests.services.server import UnavailableError

OWN = sorted((Path(__file__).parent / "data").glob("*.json"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files and print how they went; 1 if anything failed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.scenarios", description="Run scenarios against the engine, or through a store."
    )
    parser.add_argument("--store", choices=KINDS, help="play them on the durable queues of a store")
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        default=OWN,
        help="a file of scenarios in JSON; default: all",
    )
    asked = parser.parse_args(arguments)
    if asked.store is None:
        return _run_all(asked.files, ENGINE)
    try:
        with opened(asked.store) as environment:
            return _run_all(asked.files, environment)
    except UnavailableError as missing:
        _print(str(missing))
        return 1


def _run_all(files: Sequence[Path], environment: Environment) -> int:
    verdicts: list[Verdict] = []
    unusable = 0
    for path in files:
        try:
            verdicts += _run_and_print(path, environment)
        except ScenarioError as error:
            unusable += 1
            _print(f"{path} failed: {error}")
    _print(summary(verdicts, unusable))
    return int(unusable > 0 or not all(verdict.passed or verdict.left_out for verdict in verdicts))


def _run_and_print(path: Path, environment: Environment) -> list[Verdict]:
    verdicts = []
    for name, verdict in run_file(path, environment):
        _print(line(name, verdict))
        verdicts.append(verdict)
    return verdicts


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    # Handlers fail as the scenarios say; the worker's warnings of it are no result.
    logging.getLogger("django_mq").addHandler(logging.NullHandler())
    sys.exit(main())
