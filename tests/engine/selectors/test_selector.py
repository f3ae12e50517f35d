from __future__ import annotations

import pytest

from django_mq.engine.selector import Selector
from tests.engine.builders import message


def test_a_selector_matches_what_its_condition_is_true_of() -> None:
    selector = Selector("colour = 'red' AND weight > 10")

    assert selector.matches(message(headers={"colour": "red", "weight": 11}))
    assert not selector.matches(message(headers={"colour": "red", "weight": 10}))


def test_the_unknown_does_not_match_and_nor_does_its_opposite() -> None:
    assert not Selector("colour = 'red'").matches(message())
    assert not Selector("NOT colour = 'red'").matches(message())


@pytest.mark.parametrize("condition", ["5", "'TRUE'", "JMSPriority"])
def test_a_condition_that_is_no_truth_matches_nothing(condition: str) -> None:
    assert not Selector(condition).matches(message())


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_a_blank_selector_wants_every_message(text: str) -> None:
    assert Selector(text).matches(message())
