"""Times are the same moments to workers, models, pages and commands, for any time zone of the site."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import unescape
from io import StringIO
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connections
from django.utils.formats import date_format
from django.utils.timezone import get_default_timezone, localtime

from django_mq.api import publish
from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import Attempt, History, Message, WorkerSession
from django_mq.models.times import UTCDate, UTCNow
from django_mq.pipeline.insights.tables import failures
from django_mq.rollups.duty import sum_up
from django_mq.rollups.series import recent_rates
from django_mq.stores.records import Failure, SessionInfo
from django_mq.stores.registry import private_store, shared_store
from tests.admin.conftest import page_of
from tests.admin.every_page import addresses
from tests.conftest import ALIASES, hold_queues
from tests.stores.builders import claim, declare, open_session, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.contrib.auth.models import User
    from django.test import Client
    from pytest_django import Settings

SECOND = timedelta(seconds=1)
WORKER = SessionInfo(name="w", kind="native", host="h", pid=1, version="1", queues=("orders",))


def without_time_zones(settings: Settings, alias: str) -> None:
    """Have a site of which all naive times are Tokyo's."""
    settings.TIME_ZONE = "Asia/Tokyo"
    settings.USE_TZ = False


def another_zone_of_the_database(settings: Settings, alias: str) -> None:
    """Have a database whose times are New York's, for the site's own tables."""
    connections[alias].settings_dict["TIME_ZONE"] = "America/New_York"
    settings.TIME_ZONE = "Europe/Berlin"  # Django takes this for a reason to look at the databases' again


def another_zone_of_the_server(settings: Settings, alias: str) -> None:
    """Have a session whose clock shows another time."""
    if connections[alias].vendor == "mysql":
        with connections[alias].cursor() as cursor:
            cursor.execute("SET time_zone = '+05:00'")


@pytest.fixture(params=[without_time_zones, another_zone_of_the_database, another_zone_of_the_server])
def set_up(request: pytest.FixtureRequest) -> Callable[[Settings, str], None]:
    """What a site says of time zones."""
    chosen: Callable[[Settings, str], None] = request.param
    return chosen


@pytest.fixture(
    params=[
        pytest.param(
            alias, id=name, marks=pytest.mark.django_db(databases=sorted({"default", alias}), transaction=True)
        )
        for alias, name in ALIASES.items()
    ]
)
def zoned(
    request: pytest.FixtureRequest, set_up: Callable[[Settings, str], None], settings: Settings
) -> Iterator[str]:
    """A database of such a site."""
    alias = hold_queues(settings, request.param)
    set_up(settings, alias)
    yield alias
    connections[alias].settings_dict["TIME_ZONE"] = None
    connections[alias].close()


def past(time: datetime) -> dict[str, Any]:
    """Return the fields of a message that was accepted at this time."""
    times = dict.fromkeys(("published_at", "ready_at", "claimed_at", "finished_at"), time)
    return {"message_id": uuid4(), "queue_name": "orders", "priority": 4, "outcome": 1, "attempts": 0, **times}


def is_now(time: datetime | None) -> bool:
    return time is not None and abs(datetime.now(UTC) - time) < 60 * SECOND


def test_the_models_read_what_a_worker_writes(zoned: str) -> None:
    worker = private_store(zoned)
    declare(worker)
    publish("orders", {})
    [message] = claim(worker, open_session(worker))
    worker.close()

    row, session = Message.objects.get(), WorkerSession.objects.get()

    assert all(map(is_now, [row.published_at, row.claimed_at, session.heartbeat_at, message.published_at]))
    assert WorkerSession.objects.filter(deadline__gte=UTCNow(), heartbeat_at__lte=UTCNow() + SECOND).exists()
    assert is_now(WorkerSession.objects.values_list(UTCNow(), flat=True).get())
    day = row.published_at.astimezone(UTC).date()
    assert Message.objects.filter(pk=row.pk).values_list(UTCDate("published_at"), flat=True).get() == day


def test_a_worker_reads_what_the_models_write(zoned: str) -> None:
    store = shared_store(zoned)
    declare(store)
    publish("orders", {}, deliver_at=datetime.now(UTC) + timedelta(hours=2))

    assert store.maintenance.promote() == 0
    Message.objects.update(deliver_at=datetime.now(UTC) - SECOND)
    assert store.maintenance.promote() == 1


def test_a_time_reads_as_it_was_written(zoned: str) -> None:
    # In New York this hour comes twice, and in Berlin this one never comes.
    for time in (datetime(2031, 11, 2, 5, 30, tzinfo=UTC), datetime(2031, 3, 30, 2, 30, tzinfo=UTC)):
        declare(shared_store(zoned))
        publish("orders", {}, deliver_at=time)

        found = Message.objects.get(deliver_at=time).deliver_at
        assert found is not None
        assert found.astimezone(UTC) == time
        Message.objects.all().delete()


def test_the_past_is_pruned_and_counted_by_day(zoned: str) -> None:
    store = private_store(zoned)
    declare(store, history_days=1.0, dedup_seconds=60.0)
    session = open_session(store)
    for verdict in (Verdict.ACCEPT, Verdict.RELEASE):
        publish("orders", {})
        settle(store, session, claim(store, session)[0], verdict, failure=Failure("ValueError"))
    now = datetime.now(UTC)
    History.objects.update(finished_at=now - timedelta(hours=25))

    store.retention.prune()
    store.close()

    assert not History.objects.exists()
    failed_at = Attempt.objects.latest("id").failed_at
    assert is_now(failed_at)
    day = failed_at.astimezone(UTC).date()
    assert failures(zoned, day, day) == {("orders", day, False, "ValueError"): 1}


def test_charts_find_the_minutes_that_workers_sum_up(zoned: str) -> None:
    store = private_store(zoned)
    declare(store)
    History.objects.create(**past(datetime.now(UTC) - timedelta(minutes=2)))

    sum_up(store, 1000)
    store.close()

    found = recent_rates(using=zoned)
    orders = found.of("orders")
    assert orders is not None
    assert (len(found.minutes), orders.accepted) == (5, 1 / 300)


@pytest.mark.on("mariadb")
@pytest.mark.once
def test_pages_and_commands_say_the_sites_time(zoned: str, client: Client, admin_user: User) -> None:
    worker = private_store(zoned)
    declare(worker)
    publish("orders", {}, deliver_at=datetime.now(UTC) + timedelta(hours=2))
    publish("orders", {})
    worker.sessions.open(WORKER, deadline_seconds=60)
    rows = [Message.objects.earliest("id"), WorkerSession.objects.get()]
    worker.close()
    client.force_login(admin_user)

    assert {client.get(address).status_code for address in addresses()} <= {200, 403}
    pages = [client.get(page_of(row)).content.decode() for row in rows]
    shown = date_format(localtime(rows[0].published_at, get_default_timezone()), "DATETIME_FORMAT")
    assert shown in unescape(pages[0]).replace("\xa0", " ")
    for command in (["mq_doctor"], ["mq_health", "--workers"]):  # which end with an error where not all is well
        call_command(*command, "--timeout", "60", stdout=StringIO())
    call_command("mq_types", stdout=StringIO())


def test_without_use_tz_a_naive_time_is_the_sites(database: str, settings: Settings) -> None:
    without_time_zones(settings, database)
    declare(shared_store(database))

    publish("orders", {}, deliver_at=datetime(2031, 1, 1, 9, 0))  # noqa: DTZ001 - this is what such a site writes

    assert Message.objects.get().deliver_at == datetime(2031, 1, 1, 0, 0, tzinfo=UTC)
