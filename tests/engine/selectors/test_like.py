from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.expressions import matcher_of
from tests.engine.selectors.truth import truth


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("12%3", ["123", "12993", "1233"], ["1234", "0123", "12"]),
        ("l_se", ["lose", "l_se", "l\nse"], ["loose", "lse"]),
        ("", [""], ["a"]),
        ("%", ["", "a", "a\nb"], []),
        ("%%", ["", "a"], []),
        ("_%_", ["ab", "abc"], ["", "a"]),
        ("%a", ["a", "ba", "aa"], ["ab", ""]),
        ("a%", ["a", "ab"], ["ba", ""]),
        ("%a%b%", ["ab", "xaxbx"], ["ba", "a"]),
        ("a%a", ["aa", "aba"], ["a"]),
        ("%ab%ab", ["abab", "abxab"], ["ab", "aab"]),
        (".*[a-z]+\\d$", [".*[a-z]+\\d$"], ["a1", ".*[a-z]+\\d$\n"]),
        ("A", ["A"], ["a"]),
    ],
)
def test_a_pattern_fits_the_whole_text(pattern: str, matching: list[str], others: list[str]) -> None:
    assert [truth(f"h LIKE '{pattern}'", {"h": text}) for text in matching] == [True] * len(matching)
    assert [truth(f"h NOT LIKE '{pattern}'", {"h": text}) for text in others] == [True] * len(others)


@pytest.mark.parametrize(
    ("test", "matching", "other"),
    [
        (r"LIKE '\_%' ESCAPE '\'", "_foo", "bar"),
        (r"LIKE '100\%' ESCAPE '\'", "100%", "1000"),
        ("LIKE 'a!!b' ESCAPE '!'", "a!b", "a!!b"),
        ("LIKE 'a%%' ESCAPE '%'", "a%", "ab"),
        ("LIKE 'a''_' ESCAPE ''''", "a_", "ab"),
        ("LIKE 'a^_' ESCAPE '^'", "a_", "ab"),
        ("LIKE 'a]_-' ESCAPE ']'", "a_-", "ab-"),
    ],
)
def test_after_the_escape_character_a_wildcard_means_itself(test: str, matching: str, other: str) -> None:
    assert [truth(f"h {test}", {"h": text}) for text in (matching, other)] == [True, False]


@pytest.mark.parametrize("value", [None, 5, True, ["a"]])
def test_only_text_is_like_anything(value: object) -> None:
    assert [truth(f"h {test}", {"h": value}) for test in ("LIKE '%'", "NOT LIKE 'x'")] == [None, None]


def fits(pattern: str, text: str) -> bool:
    """The definition, character by character."""
    ends = {0}
    for character in pattern:
        if character == "%":
            ends = set(range(min(ends, default=len(text) + 1), len(text) + 1))
        else:
            ends = {end + 1 for end in ends if end < len(text) and character in ("_", text[end])}
    return len(text) in ends


@given(st.text("ab%_", max_size=12), st.text("ab", max_size=12))
def test_the_matcher_agrees_with_the_definition(pattern: str, text: str) -> None:
    assert (matcher_of(pattern)(text) is not None) is fits(pattern, text)


@given(st.text(max_size=20), st.sampled_from("!\\^]-[&|~%_"))
def test_an_escaped_text_fits_itself_only(text: str, escape: str) -> None:
    pattern = re.sub(f"[{re.escape(escape)}%_]", lambda found: escape + found.group(), text)
    matcher = matcher_of(pattern, escape)

    assert matcher(text)
    assert not matcher(text + "x")


@pytest.mark.parametrize("pattern", ["%a" * 6 + "%b", "%a_" * 6 + "%b", "%_" * 6 + "b", "%" * 500 + "b"])
def test_many_wildcards_do_not_take_for_ever(pattern: str) -> None:
    # A matcher that tries every way to cut the text needs half a minute here, not centuries: a test
    # that hangs inside a regular expression cannot be stopped from Python.
    matcher = matcher_of(pattern)
    started = time.process_time()

    assert not matcher("a" * 80)
    assert time.process_time() - started < 1
