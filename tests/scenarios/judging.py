"""Whether what was found is what was expected.

Every check must meet its expectations, or, if it has any, those of its alternative. The
alternative is judged by itself: what it does not mention may be as it likes. One that is in
words only is met if we have documented choices that the words may be about.
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
    #: The first difference, in words; empty if the scenario has passed, unless only words excuse it.
    difference: str = ""
    #: Whether it needs what its environment does not have; ``difference`` says what.
    left_out: bool = False


def judge(checks: Iterable[Check]) -> Verdict:
    """The verdict on a scenario's checks."""
    checks = list(checks)
    verdicts = [_judge_one(check) for check in checks]
    failed = next((each for each in verdicts if not each.passed), None)
    if failed is not None:
        is_excused = any(check.whole and _meets_alternative(check) for check in checks)
        return Verdict(passed=True, met="alternative") if is_excused else failed
    by_choice = sorted((each for each in verdicts if each.met), key=lambda each: each.met)
    return by_choice[0] if by_choice else Verdict(passed=True)


def _judge_one(check: Check) -> Verdict:
    difference = first_difference(check.expected, check.found)
    if difference is None:
        has_choice = check.alternative is not None or check.note != ""
        return Verdict(passed=True, met="expect" if has_choice else "")
    if _meets_alternative(check):
        return Verdict(passed=True, met="alternative")
    words = _in_words(check, difference)
    if check.alternative is None and check.note and check.choices:
        return Verdict(passed=True, met="alternative", difference=words)
    return Verdict(passed=False, difference=words)


def _meets_alternative(check: Check) -> bool:
    return check.alternative is not None and first_difference(check.alternative, check.found) is None


def _in_words(check: Check, difference: str) -> str:
    words = f"{check.where}: {difference}"
    if check.alternative is not None:
        words += f"; nor is the alternative met: {first_difference(check.alternative, check.found)}"
    elif check.note:
        words += f"; the alternative is in words only: {check.note}"
        words += f"; our choice: {', or '.join(check.choices)}" if check.choices else ""
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
