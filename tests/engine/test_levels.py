import pytest

from django_mq.engine.decisions.places import check_levels, level_of
from django_mq.errors import OutOfRange

#: The level of the priorities 0 to 9, for every number of levels.
TABLE = {
    1: "0000000000",
    2: "0000011111",
    3: "0000122222",
    4: "0000123333",
    5: "0001234444",
    6: "0001234555",
    7: "0012345666",
    8: "0012345677",
    9: "0123456788",
    10: "0123456789",
}


@pytest.mark.parametrize("levels", TABLE)
def test_levels_are_centred_on_the_scale_of_priorities(levels: int) -> None:
    assert "".join(str(level_of(priority, levels)) for priority in range(10)) == TABLE[levels]


@pytest.mark.parametrize("levels", TABLE)
def test_priorities_outside_the_scale_are_pressed_into_the_outermost_level(levels: int) -> None:
    assert (level_of(-100, levels), level_of(100, levels)) == (0, levels - 1)


@pytest.mark.parametrize("levels", [-1, 0, 11])
def test_a_queue_has_one_to_ten_levels(levels: int) -> None:
    with pytest.raises(OutOfRange):
        check_levels(levels)
