"""Minutes that are over are summed up once: what arrived, how it ended, how long it took."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from django_mq.diagnosis.state.series import running_minute
from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import History, Message, Rollup
from django_mq.stores.records import Failure, Settlement
from tests.stores.builders import (
    claim,
    declare,
    lose_worker,
    open_session,
    pass_time,
    publish,
    settle,
    verdict,
)
from tests.stores.conftest import ON_DATABASES

if TYPE_CHECKING:
    from django_mq.stores.base import Store

pytestmark = ON_DATABASES

HALF = datetime.now(UTC).replace(second=30, microsecond=0)


@pytest.fixture(autouse=True)
def half_past(request: pytest.FixtureRequest, store: Store) -> None:
    """Begin in the middle of a minute."""
    store.database.clock_offset = HALF - datetime.now(UTC)


def summed(store: Store, queue: str = "orders") -> list[Rollup]:
    return list(Rollup.objects.using(store.alias).filter(queue_name=queue).order_by("minute"))


def test_a_minute_that_is_over_is_summed_up_once(store: Store, orders: str, session: int) -> None:
    store.retention.roll_up()
    pass_time(store, 120)
    store.retention.roll_up()
    pass_time(store, 60)
    for _ in range(3):
        publish(store)
    first, second = claim(store, session, credit=2)
    settle(store, session, first, Verdict.ACCEPT)
    store.settlements.settle(
        session, [Settlement(second.id, second.claim, Verdict.RELEASE, counted=True, failure=Failure("E"))]
    )
    pass_time(store, 60)

    assert store.retention.roll_up() >= 1
    assert store.retention.roll_up() == 0
    (row,) = summed(store)
    assert (row.arrived, row.accepted, row.failed, row.expired, row.removed) == (3, 1, 1, 0, 0)
    assert row.redelivered == 0


def test_the_minute_that_runs_is_the_databases_whatever_the_web_servers_clock_says(store: Store) -> None:
    pass_time(store, 3600)
    offset = store.database.clock_offset

    earlier = datetime.now(UTC) + offset
    running = running_minute(store)

    assert earlier.replace(second=0, microsecond=0) <= running <= datetime.now(UTC) + offset


def test_the_minute_that_runs_is_left_alone(store: Store, orders: str, session: int) -> None:
    publish(store)
    settle(store, session, *claim(store, session), Verdict.ACCEPT)

    store.retention.roll_up()

    assert summed(store) == []
    markers = summed(store, "")
    assert len(markers) == 10
    assert [marker.newest is None for marker in markers] == [True] * 9 + [False]


def test_spans_are_those_of_accepted_messages(store: Store, orders: str, session: int) -> None:
    publish(store)
    pass_time(store, 14)
    (message,) = claim(store, session)
    pass_time(store, 1)
    settle(store, session, message, Verdict.ACCEPT)
    pass_time(store, 60)

    store.retention.roll_up()

    (row,) = summed(store)
    assert row.wait_p50 == row.wait_p95 == pytest.approx(14, abs=6)
    assert row.run_p50 == row.run_p95 == pytest.approx(1, abs=6)


def test_messages_that_ended_otherwise_have_no_span(store: Store, orders: str) -> None:
    row_id = publish(store)
    store.operations.cancel([row_id])
    pass_time(store, 60)

    store.retention.roll_up()

    (row,) = summed(store)
    assert (row.accepted, row.removed, row.wait_p50, row.run_p95) == (0, 1, None, None)


def test_each_queue_has_its_own_row(store: Store, orders: str, session: int) -> None:
    declare(store, "mails")
    for name in (orders, "mails"):
        store.operations.cancel([publish(store, name)])
    pass_time(store, 60)

    store.retention.roll_up()

    assert [len(summed(store, name)) for name in (orders, "mails", "bills")] == [1, 1, 0]


@pytest.mark.parametrize("seed", range(3))
def test_redeliveries_are_those_of_a_plain_count(store: Store, seed: int) -> None:
    """Deliveries that were not the first, ended well, in a failure, or alone with their worker."""
    declare(store, max_attempts=0)
    fates = ["accept"] * 10 + ["fail"] * 10 + ["release"] * 6 + ["die"] * 6
    random.Random(seed).shuffle(fates)
    publish(store)
    expected, failed, suspects = 0, Counter[int](), set[int]()
    for fate in fates:
        session = open_session(store)
        publish(store)
        [message] = claim(store, session, credit=1)
        number = message.id
        if fate == "accept":
            expected += message.redelivered
            settle(store, session, message, Verdict.ACCEPT)
        elif fate == "fail":
            failed[number] += 1
            expected += failed[number] > 1
            suspects.discard(number)
            store.settlements.settle(
                session, [verdict(message, Verdict.RELEASE, counted=True, failure=Failure("E"))]
            )
        elif fate == "release":
            settle(store, session, message, Verdict.RELEASE)
        else:
            failed[number] += number in suspects
            expected += number in suspects
            suspects.add(number)
            lose_worker(store, session)
    pass_time(store, 60)

    store.retention.roll_up()

    assert expected > 5
    assert sum(row.redelivered for row in summed(store)) == expected


def test_minutes_of_the_day_before_yesterday_are_forgotten(store: Store, orders: str) -> None:
    store.retention.roll_up()
    rows = Rollup.objects.using(store.alias)
    old = rows.order_by("minute").first()
    assert old is not None
    rows.filter(pk=old.pk).update(minute=old.minute - timedelta(days=2))

    store.retention.prune()

    assert rows.count() == 9
    assert not History.objects.using(store.alias).exists()
    assert not Message.objects.using(store.alias).exists()
