"""A process dies at every statement of a small durable handler, workflow, or batch; another one finishes.

    python -m tests.proof.deaths --store mariadb

In a first run nothing dies, and the statements are counted. Then there is a run for each statement, which dies
before it, and one that dies after it. What another process finds then, and goes on with, may only end as promised:
everything once, and nothing left. What has not committed its beginning has left nothing at all.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.proof.clock import long_run
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.proof.errands import Errand
    from tests.proof.place import Place


#: The session of a dead process ends when the clock is moved.
SETTINGS = {"SESSION_SECONDS": 30, "MAINTENANCE_SECONDS": 3600}


#: How often a long run says how far it has come.
TOLD = 25


class Result(NamedTuple):
    """What the deaths have left."""

    statements: int
    deaths: int
    #: Deaths before anything had committed.
    unbegun: int
    #: The statement of a death, and what was wrong after it.
    wrong: dict[str, list[str]]

    def check(self) -> None:
        """Raise AssertionError if anything is wrong."""
        assert not self.wrong, "\n".join(f"{death}: {wrong}" for death, wrong in self.wrong.items())
        assert self.deaths > self.unbegun, self


def run(
    place: Place,
    name: str,
    *,
    begin: int = 1,
    end: int = 10**6,
    stride: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Let a process die at every statement of an errand, or at every so-manieth; return what is left."""
    from django_mq.delivery.consumer.handlers import forget
    from django_mq.workflows.registry import forget as forget_workflow
    from tests.proof.errands import ERRANDS, FLOW, QUEUE

    try:
        return _Prover(place, name, ERRANDS[name](place.alias)).run(range(begin, end, stride), say)
    finally:
        forget(QUEUE)
        forget_workflow(FLOW)


class _Prover:
    def __init__(self, place: Place, name: str, errand: Errand) -> None:
        self._place, self._name, self._errand = place, name, errand
        self._grave: Path = place.directory / "grave"
        self._count: Path = place.directory / "count"

    def run(self, numbers: range, say: Callable[[str], None]) -> Result:
        statements = self._lived()
        deaths, unbegun, wrong = 0, 0, {}
        # On SQLite, after a statement is before the next one.
        for after in (False,) if self._place.url.startswith("sqlite") else (False, True):
            say(f"{self._name} sends {statements} statements, and dies {'after' if after else 'before'} each")
            for number in numbers[: len(range(numbers.start, statements + 1, numbers.step))]:
                died_at = self._died(number, after=after)
                deaths += died_at is not None
                unbegun += not self._errand.is_begun
                if problems := self._problems():
                    wrong[f"{number} {'after' if after else 'before'} {died_at}"] = problems
                self._forget()
                if number % TOLD == 0:
                    say(f"{self._name} has died up to statement {number}; {len(wrong)} were wrong")
        return Result(statements, deaths, unbegun, wrong)

    def _lived(self) -> int:
        """Let the errand run to its end, and return how many statements it took."""
        self._play(0, after=False)
        if problems := self._errand.problems():
            raise AssertionError(f"the errand itself: {problems}\n{self._place.said[-5000:]}")
        self._forget()
        return int(self._count.read_text())

    def _died(self, number: int, *, after: bool) -> str | None:
        """Let the errand run until it dies; return at which statement, None if it has ended before."""
        self._grave.unlink(missing_ok=True)
        self._play(number, after=after)
        return self._grave.read_text() if self._grave.exists() else None

    def _play(self, number: int, *, after: bool) -> None:
        given: dict[str, Any] = {"errand": self._name, "number": number, "after": after}
        child = self._place.start("die", **given, grave=str(self._grave), count=str(self._count))
        wait_until(lambda: not child.alive, self._place.story)

    def _problems(self) -> list[str]:
        if not self._errand.is_begun:
            return self._left()
        self._errand.finish()
        return self._errand.problems()

    def _left(self) -> list[str]:
        """Return what is there though nothing has committed."""
        return [f"{self._place.count()} messages"] if self._place.count() or self._errand.noted else []

    def _forget(self) -> None:
        from tests.proof.notes import forget_notes

        self._errand.forget()
        forget_notes(self._place.alias)


def main() -> None:
    """Run it from the command line."""
    from tests.proof.races import sqlite_run

    parser = argparse.ArgumentParser(prog="python -m tests.proof.deaths", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql", "mariadb"), default="sqlite")
    parser.add_argument("--errand", default="", help="only this one")
    parser.add_argument("--begin", type=int, default=1, help="the first statement")
    parser.add_argument("--end", type=int, default=10**6, help="the one behind the last statement")
    parser.add_argument("--stride", type=int, default=1)
    given = parser.parse_args()
    if given.store == "sqlite":
        with sqlite_run() as (place, say):
            _all(place, given, say)
    else:
        with long_run(given.store, durable=False) as longest:
            _all(longest.place, given, longest.say)


def _all(place: Place, given: argparse.Namespace, say: Callable[[str], None]) -> None:
    from tests.proof.errands import ERRANDS

    place.mq |= SETTINGS
    for name in [given.errand] if given.errand else ERRANDS:
        result = run(place, name, begin=given.begin, end=given.end, stride=given.stride, say=say)
        say(f"{name}: {result.deaths} deaths, {result.unbegun} before anything had committed")
        result.check()


if __name__ == "__main__":
    main()
