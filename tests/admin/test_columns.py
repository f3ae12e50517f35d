"""What several lists show alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_mq.admin.columns import ago


@pytest.mark.parametrize(
    ("words", "since"),
    [
        ("8 min 2", timedelta(minutes=8, seconds=20)),
        ("31 min ago<", timedelta(minutes=31, seconds=20)),
        ("1 h 10 min ago<", timedelta(hours=1, minutes=10, seconds=20)),
        ("in 2 h<", timedelta(hours=-2, seconds=-20)),
    ],
)
def test_the_age_of_a_time_has_no_seconds_from_ten_minutes_on(words: str, since: timedelta) -> None:
    assert f">{words}" in ago(datetime.now(UTC) - since)
