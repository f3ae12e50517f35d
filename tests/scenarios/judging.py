"""Whether what was found is what was expected.

Every check must meet its expectations, or, if it has any, those of its alternative. The
alternative is judged by itself: what it does not mention may be as it likes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.scenarios.adapter import Check, Json

_NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a scenario went."""

    passed: bool
    #: Which was met, ``expect`` or ``alternative``; empty if there is no choice, or none was met.
    met: str = ""
    #: The first difference, in words; empty if the scenario has passed.
    difference: str = ""


def judge(checks: Iterable[Check]) -> Verdict:
    """The verdict on a scenario's checks."""
    has_choice = took_alternative = False
    for check in checks:
        has_choice = has_choice or check.alternative is not None or check.note != ""
        difference = first_difference(check.expected, check.found)
        if difference is None:
            continue
        if check.alternative is None or first_difference(check.alternative, check.found) is not None:
            return Verdict(passed=False, difference=_in_words(check, difference))
        took_alternative = True
    met = "alternative" if took_alternative else "expect"
    return Verdict(passed=True, met=met if has_choice else "")


def _in_words(check: Check, difference: str) -> str:
    words = f"{check.where}: {difference}"
    if check.alternative is not None:
        words += f"; nor is the alternative met: {first_difference(check.alternative, check.found)}"
    elif check.note:
        words += f"; the alternative is in words only: {check.note}"
    return words


def first_difference(expected: Json, found: Json) -> str | None:
    """The first path whose values differ, and how; None if there is none."""
    for path, value in expected.items():
        other = found.get(path, _NOTHING)
        if not _same(value, other):
            return f"{path}: {_compare(value, other)}"
    return None


def _same(value: object, other: object) -> bool:
    # For Python 1 equals True, for JSON it does not.
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _compare(value: object, other: object) -> str:
    text = f"expected {value!r}, found {other!r}"
    if not isinstance(value, list) or not isinstance(other, list):
        return text
    at = next((at for at, pair in enumerate(zip(value, other, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(value), len(other)) if at is None else at
    return f"{text} (first at item {at})"
