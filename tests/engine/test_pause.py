"""When a queue delivers nothing."""

from __future__ import annotations

import pytest

from django_mq.engine.decisions.claim import is_paused


@pytest.mark.parametrize(
    ("flag", "until", "paused"),
    [(False, None, False), (True, None, True), (True, 11.0, True), (True, 10.0, False), (False, 11.0, False)],
)
def test_a_pause_lasts_until_its_end_if_it_has_one(flag: bool, until: float | None, paused: bool) -> None:
    assert is_paused(flag, until, now=10.0) is paused
