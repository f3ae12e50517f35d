"""Publishers that race for unique keys, are rolled back and killed. ``tests.proof.races`` does so for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.proof.races import run

if TYPE_CHECKING:
    from tests.proof.conftest import Places

RACES = 60


@pytest.mark.once
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
@pytest.mark.parametrize("rules", ["unique", "debounce"])
def test_one_message_of_each_key_is_left_and_no_key_is_stuck(places: Places, kind: str, rules: str) -> None:
    with places(kind) as place:
        run(place, rules, RACES).check()
