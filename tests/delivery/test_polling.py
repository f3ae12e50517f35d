"""Where no hint comes, a worker looks often after a message, and seldom later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.api import announce
from django_mq.delivery.consumer.runtime import look_seconds

if TYPE_CHECKING:
    from tests.delivery.conftest import Ear

POLL_SECONDS = 0.25


def looks(idle_seconds: float, seconds: float) -> list[float]:
    """The times of the looks of a clock that begins so long after a message."""
    now, times = 0.0, []
    while now < seconds:
        now += look_seconds(idle_seconds + now, POLL_SECONDS)
        times.append(now)
    return times


def test_a_message_soon_after_another_is_found_within_60_ms_in_the_middle() -> None:
    assert look_seconds(0.0, POLL_SECONDS) * 1.2 / 2 <= 0.06


@pytest.mark.parametrize("idle_seconds", [0.0, 5.0, 10.0, 3600.0])
def test_a_minute_without_a_message_has_no_more_looks_than_one_in_poll_seconds(idle_seconds: float) -> None:
    assert len(looks(idle_seconds, 60.0)) <= 60.0 / POLL_SECONDS


def test_messages_written_with_sql_are_announced_when_the_transaction_commits(
    orders: str, ear: Ear, django_capture_on_commit_callbacks: object, database: str
) -> None:
    with django_capture_on_commit_callbacks(using=database, execute=True):  # type: ignore[operator]
        announce("orders", messages=3)
        assert ear.heard == set()

    assert ear.heard == {"q:orders"}
