"""Which values compare with which, and what is unknown."""

from __future__ import annotations

from enum import Enum, IntEnum
from itertools import product

import pytest

from tests.engine.selectors.truth import truth

TRUTHS = {"TRUE": True, "FALSE": False, "(missing = 1)": None}
PAIRS = list(product(TRUTHS, repeat=2))


class Colour(str, Enum):  # noqa: UP042 - the shape of Django's TextChoices, whose str() is the value
    RED = "red"


class Size(IntEnum):
    LARGE = 3


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_and_is_false_if_a_side_is_false_and_true_if_both_are_true(left: str, right: str) -> None:
    sides = {TRUTHS[left], TRUTHS[right]}

    assert truth(f"{left} AND {right}") is (False if False in sides else None if None in sides else True)


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_or_is_true_if_a_side_is_true_and_false_if_both_are_false(left: str, right: str) -> None:
    sides = {TRUTHS[left], TRUTHS[right]}

    assert truth(f"{left} OR {right}") is (True if True in sides else None if None in sides else False)


@pytest.mark.parametrize(("part", "expected"), [("TRUE", False), ("FALSE", True), ("(missing = 1)", None)])
def test_not_leaves_the_unknown_unknown(part: str, expected: bool | None) -> None:
    assert truth(f"NOT {part}") is expected


@pytest.mark.parametrize("part", ["'true'", "1", "0", "''", "missing"])
def test_what_is_no_truth_is_unknown_where_a_truth_should_stand(part: str) -> None:
    assert [truth(part), truth(f"NOT {part}"), truth(f"{part} AND TRUE"), truth(f"{part} OR FALSE")] == [None] * 4


@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("other", ["1", "'a'", "TRUE", "missing"])
def test_a_missing_header_makes_every_comparison_unknown(sign: str, other: str) -> None:
    assert truth(f"missing {sign} {other}") is None
    assert truth(f"{other} {sign} missing") is None


@pytest.mark.parametrize(
    ("sign", "expected"),
    [
        ("=", (0, 1, 0)),
        ("<>", (1, 0, 1)),
        ("<", (1, 0, 0)),
        ("<=", (1, 1, 0)),
        (">", (0, 0, 1)),
        (">=", (0, 1, 1)),
    ],
)
@pytest.mark.parametrize("five", ["5", "5.0"])
def test_numbers_compare_whatever_their_type(sign: str, expected: tuple[int, int, int], five: str) -> None:
    assert tuple(truth(f"n {sign} {five}", {"n": n}) for n in (4, 5, 6.0)) == tuple(map(bool, expected))


@pytest.mark.parametrize("value", ["a", True])
def test_text_and_truth_are_equal_or_not_and_have_no_order(value: object) -> None:
    same, other = ("'a'", "'b'") if value == "a" else ("TRUE", "FALSE")
    headers = {"h": value}

    assert (truth(f"h = {same}", headers), truth(f"h <> {same}", headers)) == (True, False)
    assert (truth(f"h = {other}", headers), truth(f"h <> {other}", headers)) == (False, True)
    assert [truth(f"h {sign} {same}", headers) for sign in ("<", "<=", ">", ">=")] == [None] * 4


@pytest.mark.parametrize(("left", "right"), [("1", "TRUE"), ("0", "FALSE"), ("1", "'1'"), ("TRUE", "'TRUE'")])
def test_unlike_types_are_neither_equal_nor_unequal(left: str, right: str) -> None:
    assert [truth(f"{left} {sign} {right}") for sign in ("=", "<>")] == [None, None]
    assert [truth(f"{right} {sign} {left}") for sign in ("=", "<>")] == [None, None]


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, b"1", 1j, float("nan"), float("inf"), 10**400, object()])
def test_any_other_header_is_as_good_as_missing(value: object) -> None:
    headers = {"h": value}

    assert truth("h IS NULL", headers) is True
    assert [truth(f"h {test}", headers) for test in ("= 1", "<> 1", "< 1", "> 1", "LIKE '%'")] == [None] * 5


@pytest.mark.parametrize(("value", "literal"), [(Colour.RED, "'red'"), (Size.LARGE, "3")])
def test_a_member_of_an_enumeration_is_its_value(value: object, literal: str) -> None:
    assert truth(f"h = {literal} AND h IN ({literal})", {"h": value}) is True


def test_a_truth_is_no_number_to_calculate_with() -> None:
    headers = {"yes": True}

    assert [truth(f"{sum_} IS NULL", headers) for sum_ in ("yes + 1", "-yes", "+yes", "2 * TRUE")] == [True] * 4


@pytest.mark.parametrize("sum_", ["missing + 1", "1 - missing", "-missing", "'a' + 'b'", "-'a'", "1 / 0 + 1"])
def test_a_sum_with_something_that_is_no_number_has_no_value(sum_: str) -> None:
    assert truth(f"{sum_} IS NULL") is True


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("h IS NULL", False),
        ("h IS NOT NULL", True),
        ("missing IS NULL", True),
        ("missing IS NOT NULL", False),
        ("NOT missing IS NULL", False),
        ("(missing = 1) IS NULL", True),
        ("0 IS NULL OR '' IS NULL OR FALSE IS NULL", False),
    ],
)
def test_is_null_is_never_unknown(condition: str, expected: bool) -> None:
    assert truth(condition, {"h": "a"}) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("h IN ('a', 'b')", True),
        ("h IN ('b', 'c')", False),
        ("h IN ('b', 'b')", False),
        ("h NOT IN ('a', 'b')", False),
        ("h NOT IN ('b', 'c')", True),
        ("missing IN ('a')", None),
        ("missing NOT IN ('a')", None),
        ("n IN (1, 2.0)", True),
        ("n IN (1, 3)", False),
        ("n IN ('2')", None),
        ("n IN ('2', 2)", True),
        ("n IN ('2', 3)", None),
        ("yes IN (TRUE)", True),
        ("yes IN (FALSE)", False),
        ("yes IN (1)", None),
        ("one IN (TRUE)", None),
        ("1/0 IN (1)", None),
    ],
)
def test_in_says_what_a_row_of_equals_would_say(condition: str, expected: bool | None) -> None:
    assert truth(condition, {"h": "a", "n": 2, "yes": True, "one": 1}) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("n BETWEEN 1 AND 3", True),
        ("n BETWEEN 2 AND 2.0", True),
        ("n BETWEEN 3 AND 1", False),
        ("n NOT BETWEEN 3 AND 4", True),
        ("n NOT BETWEEN 1 AND 3", False),
        ("n BETWEEN missing AND 3", None),
        ("n BETWEEN missing AND 1", False),
        ("n BETWEEN 3 AND missing", False),
        ("n NOT BETWEEN missing AND 1", True),
        ("missing BETWEEN 1 AND 3", None),
        ("missing NOT BETWEEN 1 AND 3", None),
        ("'b' BETWEEN 'a' AND 'c'", None),
        ("TRUE BETWEEN 0 AND 2", None),
    ],
)
def test_between_is_two_comparisons(condition: str, expected: bool | None) -> None:
    assert truth(condition, {"n": 2}) is expected
