"""The tables of files on the page `A message travels`, compared with what a message enters."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.docs.pages import DOCS
from tests.structure.programs import measure

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = DOCS / "a-message-travels.md"
#: The name of files that serve several steps, and how many of them a table may have.
HELPER, MOST_HELPERS = "helper", 12
#: The name of files that run by the clock, so that only a slow trace has them.
AT_TIMES = "at times"
#: The name of the start of a worker, the only step without a fixed order.
START = "start"
ROW = re.compile(r"\| ([\w ]+) \| `django_mq/([\w/]+\.py)` \| (?:`([\w.<>]+)`)? ?\| .+ \|")


class Row(NamedTuple):
    """A row of a table: a step, the file that it enters, and the function by which it does."""

    step: str
    file: str
    function: str


def table(heading: str) -> list[Row]:
    """Return the rows under a heading of the page."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [Row(*found.groups(default="")) for line in section.splitlines() if (found := ROW.fullmatch(line))]


def mistakes(rows: list[Row], entered: list[tuple[str, str]]) -> Iterator[str]:
    """Say what to change in a table so that it matches the trace."""
    functions: dict[str, list[str]] = {}
    for file, function in entered:
        functions.setdefault(file, []).append(function)
    named = [row.file for row in rows]
    yield from (
        f"Add a row for {file}: it is entered by {first}."
        for file, (first, *_) in functions.items()
        if file not in named
    )
    yield from (
        f"Delete the row of {row.file}: nothing of it is called."
        for row in rows
        if row.file not in functions and row.step != AT_TIMES
    )
    yield from (f"Name {file} once." for file, count in Counter(named).items() if count > 1)
    steps = [row for row in rows if row.step not in (HELPER, AT_TIMES)]
    yield from (
        f"Name in the row of {row.file} a function that is called: {', '.join(functions[row.file])}."
        for row in steps
        if row.file in functions and row.function not in functions[row.file]
    )
    order = [(entered.index(row[1:]), row) for row in steps if row.step != START and row[1:] in entered]
    yield from (
        f"Move the row of {later.file} above that of {row.file}: {later.function} is called first."
        for (at, row), (at_later, later) in pairwise(order)
        if at_later < at
    )
    if sum(row.step == HELPER for row in rows) > MOST_HELPERS:
        yield f"Give some of the helpers a step of their own: at most {MOST_HELPERS} may have none."


@pytest.mark.parametrize("path", ["native", "celery"])
def test_the_page_names_the_files_that_a_message_enters_in_their_order(path: str) -> None:
    heading = {"native": "The files of a native message", "celery": "The files of a Celery task"}[path]

    assert list(mistakes(table(heading), [(file, function) for file, function in measure(path)])) == []


def test_a_wrong_table_is_told_what_to_change() -> None:
    rows = [
        Row("one", "a.py", "late"),
        Row("two", "b.py", "early"),
        Row("three", "c.py", "g"),
        Row("four", "d.py", ""),
    ]

    assert list(mistakes(rows, [("b.py", "early"), ("a.py", "late"), ("d.py", "f"), ("e.py", "h")])) == [
        "Add a row for e.py: it is entered by h.",
        "Delete the row of c.py: nothing of it is called.",
        "Name in the row of d.py a function that is called: f.",
        "Move the row of b.py above that of a.py: early is called first.",
    ]
