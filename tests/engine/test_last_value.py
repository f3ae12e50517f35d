"""Which value of a key replaces which."""

import pytest

from django_mq.engine.decisions.last_value import is_outdone, replaced
from django_mq.engine.states import State


@pytest.mark.parametrize(("others", "outdone"), [([], False), ([1, 2], False), ([1, 9], True)])
def test_a_value_that_comes_back_is_outdone_by_a_later_arrival(others: list[int], outdone: bool) -> None:
    assert is_outdone(5, others) is outdone


def test_a_later_value_replaces_the_others_at_once_but_for_those_that_are_held() -> None:
    others = [(1, State.READY), (2, State.CLAIMED), (3, State.SCHEDULED)]

    assert replaced(others) == ([1, 3], [2])
