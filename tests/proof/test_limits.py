"""Workers that are killed keep to limits by key. ``tests.proof.limits`` does so for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.proof.limits import SESSION, most_beyond, run

if TYPE_CHECKING:
    from tests.proof.conftest import Places


@pytest.mark.once
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_killed_workers_keep_to_limits_by_key(places: Places, kind: str) -> None:
    with places(kind, **SESSION) as place:
        run(place, 10).check()


def test_a_window_with_too_many_is_seen() -> None:
    even = [number / 20 for number in range(100)]

    assert most_beyond(even) <= 0
    assert most_beyond([*even, *[2.5] * 12]) > 0
