"""What cannot be read is refused, with the place and with what was expected there."""

from __future__ import annotations

import pickle
import sys

import pytest

from django_mq.engine.selector import DEEPEST_NESTING, LONGEST_TEXT, Selector
from django_mq.errors import MalformedSelector, MQError
from tests.engine.builders import message


def refused(text: str) -> MalformedSelector:
    with pytest.raises(MalformedSelector) as caught:
        Selector(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ("a =", 3, "Expected a value, found the end"),
        ("a = 1 b", 6, "Expected an operator or the end, found 'b'"),
        ("= 1", 0, "Expected a value, found '='"),
        ("a == 1", 3, "Expected a value, found '='"),
        ("a != 1", 2, "written <>"),
        ("a = 1 = 2", 6, "Expected an operator or the end"),
        ("(a = 1", 6, "Expected ), found the end"),
        ("a = 1)", 5, "Expected an operator or the end, found ')'"),
        ("()", 1, "Expected a value"),
        ("a = 'open", 4, "no closing quote"),
        ("a = 'open''", 4, "no closing quote"),
        ('"open = 1', 0, "no closing quote"),
        ("a.b = 1", 1, "in double quotes"),
        ("a = 12abc", 4, "no number"),
        ("a = " + "1" * (LONGEST_TEXT - 5) + "x", 4, "no number"),  # in a time that grows with the length alone
        ("a = 1.2.3", 4, "no number"),
        ("a = 0x", 4, "no number"),
        ("a = 1e", 4, "no number"),
        ("a = 1L", 4, "no number"),
        ("a = 1e999", 4, "too large"),
        ("a = 1" + "0" * 400, 4, "too large"),
        ("a = 1" + "0" * 9000, 4, "too large"),
        ("a = 1 ; b", 6, "No name, literal or operator"),
        ("a = NULL", 4, "IS NULL"),
        ("a IS 1", 5, "Expected NULL, found '1'"),
        ("a IS NOT 1", 9, "Expected NULL"),
        ("a NOT = 1", 6, "Expected IN, LIKE or BETWEEN"),
        ("a NOT", 5, "Expected IN, LIKE or BETWEEN, found the end"),
        ("a IN 'b'", 5, "Expected ("),
        ("a IN ()", 6, "Expected a literal"),
        ("a IN ('b',)", 10, "Expected a literal"),
        ("a IN ('b' 'c')", 10, "Expected )"),
        ("a IN (b)", 6, "Expected a literal"),
        ("a IN (-'b')", 7, "Expected a number"),
        ("a IN (-TRUE)", 7, "Expected a number"),
        ("a LIKE b", 7, "Expected a pattern in quotes"),
        ("a LIKE 5", 7, "Expected a pattern in quotes"),
        ("a LIKE 'b' ESCAPE 'cd'", 18, "one character"),
        ("a LIKE 'b' ESCAPE ''", 18, "one character"),
        ("a LIKE 'b' ESCAPE 5", 18, "one character"),
        ("a LIKE 'b!c' ESCAPE '!'", 7, "before something other"),
        ("a LIKE 'b!' ESCAPE '!'", 7, "before something other"),
        ("a BETWEEN 1", 11, "Expected AND"),
        ("a BETWEEN 1 OR 2", 12, "Expected AND"),
        ("a AND", 5, "Expected a value"),
        ("NOT", 3, "Expected a value"),
        ("a OR OR b", 5, "Expected a value, found 'OR'"),
        ("and = 1", 0, "Expected a value, found 'and'"),
    ],
)
def test_the_error_names_the_place_and_what_was_expected(text: str, position: int, said: str) -> None:
    error = refused(text)

    assert error.position == position
    assert said in str(error)
    assert f"position {position}" in str(error)


def test_the_first_mistake_is_the_one_that_is_told() -> None:
    assert refused("a = = 'open").position == 4


def test_a_long_word_is_not_repeated_in_full() -> None:
    assert len(str(refused("a = 1 " + "b" * 5000))) < 120


def test_a_malformed_selector_is_a_value_error_and_survives_pickling() -> None:
    error = refused("a =")

    copied = pickle.loads(pickle.dumps(error))

    assert isinstance(error, ValueError)
    assert isinstance(error, MQError)
    assert (str(copied), copied.position) == (str(error), 3)


#: What opens levels, and how many.
OPENINGS = {
    "(": 1,
    "NOT ": 1,
    "-": 1,
    "+": 1,
    "NOT (": 2,
    "-(": 2,
    "a = 1 OR a = 1 AND NOT 1 = 1 + 2 * (": 2,
    "a IN (1) AND (": 1,
}


def nested(opening: str, times: int) -> str:
    closings = (opening.count("(") - opening.count(")")) * times
    return opening * times + "TRUE" + ")" * closings


@pytest.mark.parametrize("opening", OPENINGS)
def test_nesting_is_refused_where_it_becomes_too_deep(opening: str) -> None:
    allowed = DEEPEST_NESTING // OPENINGS[opening]

    for times in (allowed + 1, LONGEST_TEXT // len(opening) // 3):
        error = refused(nested(opening, times))

        assert "deep" in str(error)
        assert allowed * len(opening) <= error.position < (allowed + 1) * len(opening)


@pytest.mark.parametrize("opening", OPENINGS)
def test_nesting_as_deep_as_allowed_fits_in_half_of_pythons_stack(opening: str) -> None:
    text = nested(opening, DEEPEST_NESTING // OPENINGS[opening])
    limit = sys.getrecursionlimit()

    sys.setrecursionlimit(_depth() + 500)
    try:
        Selector(text).matches(message())
    finally:
        sys.setrecursionlimit(limit)


def _depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def test_a_text_too_long_is_refused_where_it_becomes_so() -> None:
    assert refused("a" * (LONGEST_TEXT + 1)).position == LONGEST_TEXT


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 OR " * 1800 + "a = 0",
        "(a = 0) AND NOT -a = 1 AND " * 500 + "a = 0",
        "a <> 1 AND " * 1400 + "a = 0",
        "a" + " + 1 - 1" * 2000 + " = 0",
        "a" + " * 1" * 4000 + " = 0",
        "a IN (" + "1, " * 5000 + "0)",
    ],
)
def test_a_text_may_be_long_without_being_deep(text: str) -> None:
    assert Selector(text).matches(message(headers={"a": 0}))
