"""The command: ``python -m tests.scenarios FILE [FILE...]``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.scenarios.errors import ScenarioError
from tests.scenarios.judging import Verdict
from tests.scenarios.reporting import line, summary
from tests.scenarios.running import run_file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files and print how they went; 1 if anything failed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.scenarios", description="Run scenarios against the engine."
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a file of scenarios in JSON")
    verdicts: list[Verdict] = []
    unusable = 0
    for path in parser.parse_args(arguments).files:
        try:
            verdicts += _run_and_print(path)
        except ScenarioError as error:
            unusable += 1
            _print(f"{path} failed: {error}")
    _print(summary(verdicts, unusable))
    return int(unusable > 0 or not all(verdict.passed for verdict in verdicts))


def _run_and_print(path: Path) -> list[Verdict]:
    verdicts = []
    for name, verdict in run_file(path):
        _print(line(name, verdict))
        verdicts.append(verdict)
    return verdicts


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
