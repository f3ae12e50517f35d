"""A lease is certain for one deadline after it was confirmed, and prolonged for a process that works."""

from __future__ import annotations

import pytest

from django_mq.engine.decisions.session import is_certain, may_be_prolonged


@pytest.mark.parametrize(("seconds", "certain"), [(0.0, True), (14.9, True), (15.0, False), (3600.0, False)])
def test_a_lease_is_certain_until_its_deadline_may_have_passed(seconds: float, certain: bool) -> None:
    assert is_certain(100.0, 100.0 + seconds, 15.0) is certain


@pytest.mark.parametrize(
    ("silent_seconds", "state", "prolonged"),
    [
        (3.7, "R", False),
        (3.8, "R", True),
        (3.8, "S", True),
        (60.0, "D", True),
        (60.1, "R", False),
        *((10.0, state, False) for state in ("T", "t", "Z", "X", "x", "")),
    ],
)
def test_a_silent_workers_lease_is_prolonged_within_bounds_while_its_process_works(
    silent_seconds: float, state: str, prolonged: bool
) -> None:
    assert may_be_prolonged(silent_seconds, state, deadline_seconds=15.0, most_seconds=60.0) is prolonged
