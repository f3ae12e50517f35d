"""The outcome of each file, facts or the reason why there are none, and the totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from library.analysis import Facts

#: Path to what was found in the file; None for a broken one.
Outcomes = Mapping[str, Facts | None]


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over all files."""

    files: int
    broken: int
    lines: int
    tokens: int
    comments: int
    functions: int
    classes: int
    imports: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: its file, the reason, and its failed attempts."""

    path: str
    reason: str = ""
    attempts: int = 0
    traceback: str = ""


#: The names in the order of a report.
NAMES = tuple(field.name for field in fields(Totals))


def totals_of(outcomes: Outcomes) -> Totals:
    """Add up."""
    found = [facts for facts in outcomes.values() if facts]
    return Totals(
        files=len(outcomes),
        broken=len(outcomes) - len(found),
        lines=sum(facts.lines for facts in found),
        tokens=sum(facts.tokens for facts in found),
        comments=sum(facts.comments for facts in found),
        functions=sum(facts.functions for facts in found),
        classes=sum(facts.classes for facts in found),
        imports=sum(len(facts.imports) for facts in found),
    )
