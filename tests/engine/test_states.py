from itertools import product

import pytest

from django_mq.engine.states import MOVES, State, is_dead_letter
from django_mq.errors import IllegalMove
from tests.inprocess.builders import entry


def test_the_numbers_stored_in_rows_never_change() -> None:
    numbers = {state.name: int(state) for state in State}

    stored = {"SCHEDULED": 0, "READY": 1, "CLAIMED": 2, "DEAD": 3, "PARKED": 7}
    assert numbers == stored | {"HELD": 4, "GONE": 5, "STEALABLE": 6}


@pytest.mark.parametrize(("old", "new"), list(product(State, State)))
def test_a_move_is_allowed_exactly_if_the_table_names_it(old: State, new: State) -> None:
    each = entry(state=old)
    if new in MOVES[old]:
        assert each.swap(old, new)
    else:
        with pytest.raises(IllegalMove, match=f"from {old.name.lower()} to {new.name.lower()}"):
            each.swap(old, new)


def test_nothing_comes_back_once_it_is_gone() -> None:
    assert MOVES[State.GONE] == frozenset()


def test_everything_else_can_be_removed() -> None:
    assert all(State.GONE in MOVES[state] for state in State if state is not State.GONE)


def test_no_state_leads_to_itself() -> None:
    assert all(state not in MOVES[state] for state in State)


@pytest.mark.parametrize(
    ("state", "reason", "is_one"),
    [
        (State.DEAD, "", True),
        (State.DEAD, "boom", True),
        (State.READY, "boom", True),
        (State.READY, "", False),
        (State.SCHEDULED, "boom", False),
        (State.CLAIMED, "boom", False),
    ],
)
def test_a_dead_letter_is_dead_here_or_ready_with_the_reason_of_its_death(
    state: State, reason: str, is_one: bool
) -> None:
    assert is_dead_letter(state, reason) is is_one
