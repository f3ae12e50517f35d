"""LIKE: ``_`` is any one character, ``%`` any number of them.

The pattern is cut at its ``%``. A run between two of them is looked for once, at the first
place where it fits, and that choice is never taken back: an earlier fit leaves all later
runs more room, so nothing is missed. A match therefore takes at most as many steps as
pattern times text; the usual translation into ``.*`` tries every way to cut the text.
"""

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from django_mq.engine.message import Message
from django_mq.engine.selectors.values import Expression, Value

#: Answers a match, or None, for the whole of a text.
Matcher: TypeAlias = Callable[[str], object]


def like(part: Expression, matcher: Matcher) -> Expression:
    """LIKE: unknown for anything that is not text."""

    def value(message: Message) -> Value:
        text = part(message)
        return matcher(text) is not None if type(text) is str else None

    return value


def escapes_well(pattern: str, escape: str) -> bool:
    """Whether every escape character stands before ``%``, ``_`` or another of its kind."""
    mark = re.escape(escape)
    return re.fullmatch(f"(?:{mark}[{mark}%_]|[^{mark}])*+", pattern) is not None


def matcher_of(pattern: str, escape: str = "") -> Matcher:
    """What matches this pattern, which must be one that ``escapes_well``."""
    first, *others = _runs(pattern, escape)
    if not others:
        return re.compile(first, re.DOTALL).fullmatch
    *inner, last = others
    # (?>...) is what forbids a second choice.
    searched = "".join(f"(?>.*?{run})" for run in inner if run)
    return re.compile(f"{first}{searched}.*{last}", re.DOTALL).fullmatch


def _runs(pattern: str, escape: str) -> list[str]:
    """The pieces between the ``%`` signs, as regular expressions of a fixed length."""
    runs: list[list[str]] = [[]]
    for step in _steps(pattern, escape):
        if step:
            runs[-1].append(step)
        else:
            runs.append([])
    return ["".join(run) for run in runs]


def _steps(pattern: str, escape: str) -> Iterator[str]:
    """A regular expression for each character; an empty one for ``%``."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield re.escape(next(characters))
        elif character in "%_":
            yield "" if character == "%" else "."
        else:
            yield re.escape(character)
