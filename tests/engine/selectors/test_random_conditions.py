from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from django_mq.engine.selector import Selector
from django_mq.errors import MalformedSelector
from tests.engine.builders import message
from tests.engine.selectors.trees import HEADERS, TREES, Tree, evaluated, written
from tests.engine.selectors.truth import truth

WRITTEN = """a b 'x' '%_' "q" 1 2.5 1e3 0x1F TRUE FALSE NULL AND OR NOT IN LIKE ESCAPE BETWEEN IS
    = <> < <= > >= + - * / ( ) , ' " ! . JMSPriority JMSTimestamp"""
WORDS = st.sampled_from(WRITTEN.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(), parts, max_size=3),
)


@given(TREES, HEADERS)
def test_a_condition_is_worth_what_the_plain_evaluator_says(tree: Tree, headers: dict[str, Any]) -> None:
    expected = evaluated(tree, headers)

    assert truth(written(tree), headers) is (expected if isinstance(expected, bool) else None)


@given(TREES, TREES, HEADERS)
def test_values_agree_with_the_plain_evaluator_too(one: Tree, other: Tree, headers: dict[str, Any]) -> None:
    same = evaluated(("=", one, other), headers)

    assert truth(f"({written(one)}) = ({written(other)})", headers) is same


@given(st.text() | st.lists(WORDS, max_size=15).map(" ".join) | st.lists(WORDS, max_size=15).map("".join))
@example("\x00")
@example("'\ud800'")
def test_any_text_is_read_or_refused_at_a_place_in_it(text: str) -> None:
    assert outcome(text) in (True, False, *range(len(text) + 1))


def outcome(text: str) -> bool | int:
    """Whether a message matches, or where the text is wrong."""
    try:
        return Selector(text).matches(message())
    except MalformedSelector as error:
        return error.position


@given(TREES, st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON))
def test_no_header_makes_a_selector_raise(tree: Tree, headers: dict[str, Any]) -> None:
    assert Selector(written(tree)).matches(message(headers=headers)) in (True, False)
