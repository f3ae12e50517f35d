"""Literals, names, and which operator binds first."""

from __future__ import annotations

import pytest

from tests.engine.selectors.truth import truth

HEADERS = {
    "a": 1,
    "b": 2,
    "zero": 0,
    "ratio": 2.5,
    "word": "it's",
    "yes": True,
    "no": False,
    "$x_1": 7,
    "größe": 5,
    "x-y": 9,
    'with "quotes"': 3,
    "and": 4,
    "A": 10,
}


@pytest.mark.parametrize(
    "condition",
    [
        "word = 'it''s'",
        "'' = ''''''  OR '''' = ''''",
        "a = 1",
        "a = 1.0",
        "ratio = 2.5",
        "ratio = 25e-1",
        "ratio = .25E1",
        "ratio = 0.25e+1",
        "b = 2.",
        "b = 002",
        "a + 30 = 0x1F",
        "a = 0X1",
        "yes = TRUE",
        "no = false",
        "yes",
        "TrUe",
        "$x_1 = 7",
        "größe = 5",
        '"x-y" = 9',
        '"with ""quotes""" = 3',
        '"and" = 4',
        "A = 10 AND a = 1",
        "\ta\n=\r1 ",
        "a=1 and(b=2)Or''=word",
        "99999999999999999999 > a",
    ],
)
def test_literals_and_names_are_read_as_written(condition: str) -> None:
    assert truth(condition, HEADERS) is True


@pytest.mark.parametrize("keyword", ["AND", "and", "And", "aNd"])
def test_keywords_are_read_in_any_case(keyword: str) -> None:
    assert truth(f"a = 1 {keyword} b = 2", HEADERS) is True


@pytest.mark.parametrize("name", ["andy", "nota", "inn", "\u0131s", "l\u0131ke", "li\u212ae", "Null_"])
def test_a_name_that_only_looks_like_a_keyword_is_a_name(name: str) -> None:
    assert truth(f"{name} = 1", {name: 1}) is True


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("TRUE OR FALSE AND FALSE", True),
        ("(TRUE OR FALSE) AND FALSE", False),
        ("FALSE AND FALSE OR TRUE", True),
        ("NOT FALSE OR TRUE", True),
        ("NOT (FALSE OR TRUE)", False),
        ("NOT FALSE AND FALSE", False),
        ("NOT a = 2", True),
        ("NOT NOT a = 1", True),
        ("1 + 2 * 3 = 7", True),
        ("(1 + 2) * 3 = 9", True),
        ("10 - 4 - 3 = 3", True),
        ("24 / 4 / 2 = 3", True),
        ("24 / 4 * 2 = 12", True),
        ("-a + 3 = 2", True),
        ("- - a = 1", True),
        ("3--1 = 4", True),
        ("3-+1 = 2", True),
        ("2 * -a = -2", True),
        ("a + b BETWEEN 1 + 1 AND 2 * 2 AND FALSE", False),
        ("a BETWEEN 0 AND 2 AND b = 2", True),
        ("a + 1 IN (2, 3)", True),
        ("zero IN (-1, +0, 1e0)", True),
        ("a - 2 IN (-1)", True),
        ("(a = 1) = TRUE", True),
        ("(a = 2) = (b = 1)", True),
        ("((((a)))) = ((1))", True),
    ],
)
def test_operators_bind_as_in_sql(condition: str, expected: bool) -> None:
    assert truth(condition, HEADERS) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("7 / 2 = 3", True),
        ("-7 / 2 = -3", True),
        ("7 / -2 = -3", True),
        ("-7 / -2 = 3", True),
        ("7 / 2.0 = 3.5", True),
        ("1 / 0 = 1", None),
        ("1.0 / 0 = 1", None),
        ("0 / 0.0 = 1", None),
        ("1e308 * 10 > 1", None),
        ("1e308 / 1e-10 > 1", None),
        ("9223372036854775807 + 1 > 9223372036854775807", True),
    ],
)
def test_arithmetic_has_a_result_or_no_value(condition: str, expected: bool | None) -> None:
    assert truth(condition) is expected
