"""A fleet whose workers are killed publishes each tick once, also where clocks change."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from django_mq.stores.clock import clock
from tests.proof.ticks import ZONES, Fleet, changes, first_day

if TYPE_CHECKING:
    from tests.proof.conftest import Places


def test_all_zones_of_the_proof_change_their_clocks_in_its_ten_days() -> None:
    assert [zone for zone in ZONES if not changes(zone, first_day(), 10)] == []


@pytest.mark.once
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_two_days_with_kills_have_each_tick_once(
    places: Places, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The days in which clocks change in Europe and in the Near East."""
    monkeypatch.setattr(clock, "offset", clock.offset)  # the fleet moves the clock of this process, too
    with places(kind) as place:
        fleet = Fleet(place, random.Random(3), begin=first_day() + timedelta(days=1.5))
        account = fleet.run(2, 0.2, lambda _: None)

        account.check()
        account.check_done()
        assert fleet.check().total() > 1000
