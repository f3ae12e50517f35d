"""The page of tenants shows what a plain count has, and leads to the messages; it takes two permissions."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.checks import check_settings
from django_mq.models import History, Message, Queue, SearchKey
from django_mq.rollups.duty import sum_up as roll_up
from django_mq.stores.registry import shared_store
from django_mq.tenants.duty import sum_up
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

TENANTS = f"{list_of('queue')}tenants/"
HOSTILE = "<script>document.title = 'broken in'</script>"
LONG = "x" * 255
NAMES = ("acme", "Acme", HOSTILE, LONG, "a&b=c:d", "größe\u202e")


@pytest.fixture
def keyed(site: str, settings: Settings, make: Make) -> str:
    """Two queues have the key that names the tenants."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "TENANT_KEY": "tenant"}
    for name in ("orders", "mails"):
        make.queue(name, other_options={"search": "tenant"})
    return site


def of_tenant(name: str, message_id: UUID) -> None:
    SearchKey.objects.create(message_id=message_id, name="tenant", value=name)


def a_past(make: Make) -> None:
    """Write messages of some tenants that ended in the last minutes, failed, or wait, and one without a tenant."""
    # In the last minute but one: the last one is summed up some seconds after its end.
    end = timezone.now().replace(second=0, microsecond=0) - timedelta(seconds=90)
    for number in range(42):
        claimed = end - timedelta(seconds=1 + number % 3)
        times = {"ready_at": claimed - timedelta(seconds=number), "claimed_at": claimed, "finished_at": end}
        queue = ("orders", "mails")[number % 4 == 0]
        row = make.history(
            queue_name=queue, outcome=(1, 1, 6)[number % 3], published_at=times["ready_at"], **times
        )
        of_tenant(NAMES[number // 3 % 6], row.message_id)
        if number % 4 == 1:
            make.attempt(message_id=row.message_id, queue_name=queue, failed_at=end)
    make.history(published_at=end, ready_at=end, claimed_at=end, finished_at=end)
    for number in range(9):
        of_tenant(NAMES[number % 6], make.message(queue=Queue.objects.get(name="orders")).message_id)


def summed_up(alias: str) -> None:
    roll_up(shared_store(alias), 1000)
    sum_up(shared_store(alias), 1000)


def keys_of(rows: Any) -> Counter[str]:
    names = dict(SearchKey.objects.values_list("message_id", "value"))
    return Counter(names[message_id] for message_id in rows if message_id in names)


def test_every_figure_is_that_of_a_plain_count_and_leads_to_the_messages(
    keyed: str, browse: Client, make: Make
) -> None:
    a_past(make)
    summed_up(keyed)

    for queue in ("", "orders"):
        page = browse.get(TENANTS, {"queue": queue, "by": "accepted"})
        found = page.context["found"]
        past = History.objects.filter(queue_name=queue) if queue else History.objects.all()
        expected = keys_of(past.filter(outcome=1).values_list("message_id", flat=True))
        assert {row.tenant: row.accepted for row in found.tenants if row.accepted} == expected
        assert [row.accepted for row in found.tenants] == sorted(expected.values(), reverse=True)
        dead = keys_of(past.filter(outcome=6).values_list("message_id", flat=True))
        assert {row.tenant: row.dead for row in found.tenants} == {name: dead[name] for name in expected}
        assert found.total.accepted == past.filter(outcome=1).count()
        assert found.total.waiting == Message.objects.count()
        assert HOSTILE not in page.content.decode()
        assert "&lt;script&gt;" in page.content.decode()

    waiting = browse.get(TENANTS, {"by": "waiting"}).context["found"]
    assert {row.tenant: row.waiting for row in waiting.tenants} == keys_of(
        Message.objects.values_list("message_id", flat=True)
    )
    for line, row in zip(page.context["rows"], found.tenants, strict=True):
        messages = browse.get(line["address"]).context["lines"]
        assert {shown for one in messages for shown, _ in one.keys} == {f"tenant: {row.tenant}"}

    printed = json.loads(run("mq_tenants", "orders", "--by", "held", "--json", database=keyed))
    found = browse.get(TENANTS, {"queue": "orders", "by": "run_seconds"}).context["found"]
    assert [row["tenant"] for row in printed["tenants"]] == [row.tenant for row in found.tenants]
    assert printed["total"]["accepted"] == found.total.accepted
    table = run("mq_tenants", database=keyed)
    assert "\u202e" not in table
    assert table.count("acme") == 1


def run(*arguments: str, database: str) -> str:
    printed = StringIO()
    call_command(*arguments, "--database", database, stdout=printed)
    return printed.getvalue()


def test_the_page_takes_the_permissions_of_charts_and_of_messages(
    keyed: str, login_with: Callable[..., Client]
) -> None:
    client = login_with("view_queue", "view_message")
    user: Any = client.get(TENANTS).wsgi_request.user
    assert client.get(TENANTS).status_code == 200
    assert client.get(page_of(Queue.objects.get(name="orders"))).content.count(b"Top by tenant") == 2
    for codename in ("view_queue", "view_message"):
        user.user_permissions.set(user.user_permissions.model.objects.filter(codename=codename))
        assert client.get(TENANTS).status_code == 403
        assert b"Top by tenant" not in client.get(list_of(codename.removeprefix("view_"))).content


def test_a_key_that_is_missing_wrong_or_hidden_is_said(
    site: str, settings: Settings, browse: Client, make: Make
) -> None:
    plain = dict(settings.DJANGO_MQ)
    assert browse.get(TENANTS).status_code == 404
    with pytest.raises(CommandError, match="set TENANT_KEY"):
        run("mq_tenants", database=site)

    settings.DJANGO_MQ = {**plain, "TENANT_KEY": "customer"}
    make.queue()
    assert "No queue has “customer” among its search keys" in browse.get(TENANTS).content.decode()
    assert "There are no figures" in browse.get(TENANTS, {"span": "<x>", "by": "'"}).content.decode()
    assert browse.get(TENANTS, {"queue": "typo"}).status_code == 404
    assert "does not have “customer”" in browse.get(TENANTS, {"queue": "orders"}).content.decode()

    for key, fault in {
        "a b": "one search key",
        "": "one search key",
        "a:b": "has a colon",
        "x" * 101: "at most 100 characters",
        7: "it must be of type str",
        "secret": "hidden by MASK",
    }.items():
        settings.DJANGO_MQ = {**plain, "TENANT_KEY": key, "MASK": ["secret"]}
        assert [fault in str(error) for error in check_settings()] == [True], key


def test_the_page_reads_figures_by_their_index_and_no_message(keyed: str, browse: Client, make: Make) -> None:
    a_past(make)
    summed_up(keyed)
    connection = connections[keyed]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")

    with CaptureQueriesContext(connection) as captured:
        browse.get(TENANTS, {"queue": "orders", "by": "wait_p95"})

    asked = [one["sql"] for one in captured.captured_queries]
    figures = [sql for sql in asked if "django_mq_tenantstep" in sql]
    assert 5 < len(figures) < 20
    assert not [sql for sql in asked if "django_mq_message" in sql or "django_mq_history" in sql]
    explain, whole = {
        "sqlite": ("EXPLAIN QUERY PLAN", "SCAN django_mq_tenantstep"),
        "postgresql": ("EXPLAIN", "Seq Scan"),
        "mysql": ("EXPLAIN", "'ALL'"),
    }[connection.vendor]
    with connection.cursor() as cursor:
        for sql in figures:
            cursor.execute(f"{explain} {sql}")
            assert whole not in str(cursor.fetchall()), sql
