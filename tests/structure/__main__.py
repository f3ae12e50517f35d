"""The command: ``python -m tests.structure [--check] [--verbose]`` prints the table of measures.

The files that a message passes, the circles of files, the places that state a rule, the files that name an option,
the lines of the engine that the product reaches, and what a claim asks of each database. What is not installed is
skipped.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.services.server import UnavailableError
from tests.structure.programs import KINDS, at_work, measure
from tests.structure.source import HOMES, Place, circles, homes, methods, naming, places, sizes
from tests.structure.tracing import PACKAGE, function_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Options whose files are counted.
OPTIONS: Final = ("grouping", "max_in_flight", "backoff_ticks_per_second")
#: What decides for durable queues, by module of the engine, with the names that do where others do not: to be
#: reached without the memory store.
DECISIONS: Final = {
    "decisions/arbiter": "",
    "decisions/claim": "",
    "decisions/duplicates": "is_over",
    "decisions/expiry": "",
    "decisions/last_value": "",
    "decisions/limits": "",
    "decisions/places": "",
    "decisions/routing": "",
    "decisions/verdict": "",
}
#: Where the product is run for that, besides the memory store.
DURABLE: Final = ("sqlite", "postgresql")
#: How many classes are listed.
WIDE: Final = 20
#: Most round trips of a claim from a queue without rules, and with; the others are only shown.
PLAIN_BOUNDS: Final = {"postgresql": 1}
RULED_BOUNDS: Final = {"postgresql": 2, "mariadb": 6}


class Measure(NamedTuple):
    """A line of the table, with what it was made of."""

    name: str
    value: int
    bound: int | None = None
    unit: str = ""
    #: Whether the bound is the least value; otherwise it is the most.
    least: bool = False
    parts: Sequence[str] = ()
    #: What was run for it, if that decides the value.
    note: str = ""

    @property
    def missed(self) -> bool:
        """Whether the value is on the wrong side of its bound."""
        return self.bound is not None and (self.value < self.bound if self.least else self.value > self.bound)

    def __str__(self) -> str:
        bound = "" if self.bound is None else f"{'>=' if self.least else '<='} {self.bound}{self.unit}"
        line = f"{self.name:<64} {f'{self.value}{self.unit}':>6} {bound:>8}{'  missed' if self.missed else ''}"
        return f"{line}\n    {self.note}" if self.note else line


class Skipped(NamedTuple):
    """A line of the table for what cannot be measured here."""

    name: str
    why: str
    missed: bool = False
    parts: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.name}: skipped. {self.why}"


def files_entered() -> Iterator[Measure]:
    """Count the files that a message passes, worker start and stop included."""
    for name, bound in (("native", 38), ("celery", 44)):
        first: dict[str, str] = {}
        for path, function in measure(name):
            first.setdefault(path, function)
        parts = [f"{number:>3} {path}: {function}" for number, (path, function) in enumerate(first.items(), 1)]
        yield Measure(f"files entered by one {name} message", len(first), bound, parts=parts)


def knots() -> Iterator[Measure]:
    """Count the circles of files that import each other."""
    found = circles()
    largest = max(map(len, found), default=0)
    yield Measure("files of the largest circle of imports", largest, 4)
    yield Measure(
        "circles of imports", len(found), 6, parts=[f"{len(files):>3} {', '.join(files)}" for files in found]
    )


def widths() -> Iterator[Measure]:
    """Count the methods of the widest class."""
    widest = methods()[:WIDE]
    yield Measure(
        "methods of the widest class", widest[0][0], 35, parts=[f"{count:>3} {name}" for count, name in widest]
    )


def rules() -> Iterator[Measure]:
    """Count the places that state a rule."""
    # Each in the engine, and in SQL.
    for rule, words in (("exhausted", "attempts are exhausted"), ("paused", "paused now")):
        yield _places(words, places(rule), 2)
    for subject in HOMES:
        yield _places(subject, homes(subject), 1)


def _places(words: str, found: Sequence[Place], bound: int) -> Measure:
    parts = [f"{place.path}:{place.line}: {place.text}" for place in found]
    return Measure(f'places that state "{words}"', len(found), bound, parts=parts)


def options() -> Iterator[Measure]:
    """Count the files that name a queue option."""
    for option in OPTIONS:
        files = naming(option)
        yield Measure(f"files that name the option {option}", len(files), 6, parts=files)


def reach() -> Iterator[Measure | Skipped]:
    """Compare the lines of the engine that run with those there are."""
    try:
        yield from _reach()
    except UnavailableError as missing:
        yield Skipped("function lines of engine/ reached", str(missing))


def _reach() -> Iterator[Measure]:
    durable = [measure(f"reached on {kind}") for kind in DURABLE]
    everywhere = [*durable, measure("reached on memory")]
    engine = PACKAGE / "engine"
    there = {str(path.relative_to(PACKAGE)): function_lines(path) for path in engine.rglob("*.py")}
    yield _share("function lines of engine/ reached", everywhere, there)
    alone = _share("function lines of engine/ reached on PostgreSQL alone", durable[-1:], there, 60)
    yield alone._replace(note="\n    ".join(at_work()))
    decisions = {f"engine/{name}.py": function_lines(engine / f"{name}.py", of) for name, of in DECISIONS.items()}
    yield _share("function lines of decisions and arbiter reached, SQL alone", durable, decisions)


def _share(name: str, runs: list[dict[str, list[int]]], there: dict[str, set[int]], bound: int = 90) -> Measure:
    reached = {
        path: lines.intersection(line for run in runs for line in run.get(path, ()))
        for path, lines in there.items()
    }
    counts = {path: (len(reached[path]), len(lines)) for path, lines in there.items() if lines}
    parts = [
        f"{100 * some // every:>3} % {some:>4} of {every:<4} {path}"
        for path, (some, every) in sorted(counts.items(), key=lambda item: item[1][0] / item[1][1])
    ]
    some, every = (sum(count[part] for count in counts.values()) for part in (0, 1))
    return Measure(name, 100 * some // every, bound, " %", least=True, parts=parts)


def claims() -> Iterator[Measure | Skipped]:
    """Count what a claim asks of each database."""
    for kind in KINDS:
        unit = "statements" if kind == "sqlite" else "round trips"
        try:
            found: dict[str, int] = measure(f"asked on {kind}")
        except UnavailableError as missing:
            yield Skipped(f"{kind}: {unit} of a claim", str(missing))
            continue
        for rule, count in found.items():
            bound = (PLAIN_BOUNDS if rule == "plain" else RULED_BOUNDS).get(kind)
            yield Measure(f"{kind}: {unit} of a claim, {rule}", count, bound)


def amounts() -> Iterator[Measure]:
    """Count files and lines."""
    yield from (Measure(name, count) for name, count in sizes().items())


MEASURES: Final[dict[str, Any]] = {
    measures.__name__: measures
    for measures in (files_entered, knots, widths, rules, options, reach, claims, amounts)
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; with ``--check``, return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.structure", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed")
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="list what each measure is made of, not only where a bound is missed",
    )
    parser.add_argument("--only", choices=MEASURES, action="append", help="take these measures only")
    asked = parser.parse_args(arguments)
    missed = False
    for name in asked.only or MEASURES:
        for item in MEASURES[name]():
            missed = missed or item.missed
            _print(str(item))
            for part in item.parts if asked.verbose or item.missed else ():
                _print(f"    {part}")
    return int(asked.check and missed)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
