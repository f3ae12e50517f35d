"""A publisher's statements are prepared on a connection that is its own, and on no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext
from psycopg import IsolationLevel

from django_mq.errors import DuplicateMessage, StoreError, StoreUnavailable
from django_mq.models import Message
from django_mq.stores.postgresql.database import WORTH_ASKING
from django_mq.stores.registry import shared_store
from tests.stores.builders import a_message, declare, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.base import Store

pytestmark = pytest.mark.django_db(databases=["postgresql"], transaction=True)


@pytest.fixture
def site() -> Iterator[Store]:
    """A store over an unused Django connection, with the queue ``orders``."""
    connections["postgresql"].close()
    store = shared_store("postgresql")
    declare(store)
    yield store
    connections["postgresql"].close()


def driver() -> Any:
    connections["postgresql"].ensure_connection()
    return connections["postgresql"].connection


def prepared() -> int:
    """How many statements the server process has prepared."""
    with connections["postgresql"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements")
        return int(cursor.fetchone()[0])


def publish_often(store: Store) -> None:
    for _ in range(WORTH_ASKING):
        publish(store)


def test_a_connection_straight_to_the_server_prepares_what_it_runs_often(site: Store) -> None:
    publish_often(site)

    assert prepared() == 1


def test_a_connection_that_is_used_once_is_not_asked(site: Store) -> None:
    publish(site)

    assert prepared() == 0


def test_a_connection_through_a_pooler_prepares_nothing(site: Store) -> None:
    told = driver().info.backend_pid
    site.database.backend = lambda: told + 1  # type: ignore[attr-defined]

    publish_often(site)
    publish_often(site)

    assert prepared() == 0


def test_the_answer_is_remembered(site: Store) -> None:
    asked: list[int] = []

    def backend() -> int:
        asked.append(1)
        return int(driver().info.backend_pid)

    site.database.backend = backend  # type: ignore[attr-defined]
    driver()
    answers = [site.database.may_prepare() for _ in range(WORTH_ASKING * 2)]  # type: ignore[attr-defined]

    assert answers == [False] * (WORTH_ASKING - 1) + [True] * (WORTH_ASKING + 1)
    assert len(asked) == 1


def test_a_new_connection_is_asked_anew(site: Store) -> None:
    publish_often(site)
    connections["postgresql"].close()

    publish(site)

    assert prepared() == 0


def test_the_projects_own_statements_are_prepared_as_the_project_says(site: Store) -> None:
    before = driver().prepare_threshold

    publish_often(site)

    assert driver().prepare_threshold == before


def test_whoever_watches_the_connection_sees_every_publish(site: Store) -> None:
    publish_often(site)

    with CaptureQueriesContext(connections["postgresql"]) as seen:
        publish(site)

    assert len(seen) == 1


def test_whoever_wraps_the_connection_sees_every_publish(site: Store) -> None:
    seen: list[str] = []

    def wrapper(execute: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return execute(sql, *rest)

    publish_often(site)
    with connections["postgresql"].execute_wrapper(wrapper):
        publish(site)

    assert len(seen) == 1


def test_a_prepared_publish_is_refused_as_any_other(site: Store) -> None:
    there = a_message()
    publish_often(site)
    site.publications.append(there)

    with transaction.atomic(using="postgresql"):
        with pytest.raises(DuplicateMessage):
            site.publications.append(there)
        publish(site)

    assert site.queues.counts()["orders"].ready == WORTH_ASKING + 2


def test_a_prepared_publish_is_rolled_back_as_any_other(site: Store) -> None:
    publish_often(site)

    with transaction.atomic(using="postgresql"):
        publish(site)
        transaction.set_rollback(True, using="postgresql")
    publish(site)

    assert site.queues.counts()["orders"].ready == WORTH_ASKING + 1


def test_a_transaction_that_must_be_rolled_back_takes_no_prepared_publish(site: Store) -> None:
    publish_often(site)

    with transaction.atomic(using="postgresql"):
        transaction.set_rollback(True, using="postgresql")
        with pytest.raises(StoreError, match="current transaction"):
            publish(site)

    assert site.queues.counts()["orders"].ready == WORTH_ASKING


@pytest.mark.parametrize("forget", ["DISCARD ALL", "DEALLOCATE ALL"])
def test_a_project_may_drop_all_that_was_prepared(site: Store, forget: str) -> None:
    publish_often(site)
    with connections["postgresql"].cursor() as cursor:
        cursor.execute(forget)

    publish_often(site)

    assert site.queues.counts()["orders"].ready == WORTH_ASKING * 2


def test_in_a_transaction_that_is_an_outage_for_once(site: Store) -> None:
    publish_often(site)
    with connections["postgresql"].cursor() as cursor:
        cursor.execute("DISCARD ALL")

    with transaction.atomic(using="postgresql"):
        with pytest.raises(StoreUnavailable, match="is not valid any more"):
            publish(site)
        transaction.set_rollback(True, using="postgresql")
    with transaction.atomic(using="postgresql"):
        publish(site)

    assert site.queues.counts()["orders"].ready == WORTH_ASKING + 1


#: Something in every field that a publish may give without a time.
FULL: dict[str, Any] = {
    "body": bytes(range(256)),
    "content_type": "text/ünicode",
    "content_encoding": "binary",
    "headers": '{"a": [1, "ü"]}',
    "properties": '{"b": null}',
    "priority": 9,
    "type": "order 🛒",
    "correlation_id": "c-1",
    "group_key": "g",
}


def written(site: Store) -> list[dict[str, Any]]:
    """The rows, without what tells one from another."""
    own = ("id", "message_id", "published_at")
    rows = Message.objects.using("postgresql").order_by("id").values()
    return [{name: value for name, value in row.items() if name not in own} for row in rows]


@pytest.mark.parametrize("given", [{}, FULL], ids=["plain", "full"])
def test_every_way_to_the_server_writes_the_same_row(site: Store, given: dict[str, Any]) -> None:
    publish(site, **given)  # by Django's cursor
    publish_often(site)
    site.deletions.purge("orders")
    with CaptureQueriesContext(connections["postgresql"]):
        publish(site, **given)
    publish(site, **given)  # through libpq
    with transaction.atomic(using="postgresql"):
        publish(site, **given)  # with the BEGIN before it
        publish(site, **given)
    with transaction.atomic(using="postgresql"), driver().pipeline():
        publish(site, **given)
    driver().prepare_threshold = 1
    publish(site, **given)  # by the driver's cursor

    rows = written(site)
    assert len(rows) == 6
    assert all(row == rows[0] for row in rows)


def test_the_number_of_a_row_is_what_the_server_said(site: Store) -> None:
    publish_often(site)

    assert publish(site) == Message.objects.using("postgresql").latest("id").id


def test_a_rollback_leaves_what_was_prepared(site: Store) -> None:
    publish_often(site)
    for _ in range(2):
        with transaction.atomic(using="postgresql"):
            publish(site)
            transaction.set_rollback(True, using="postgresql")
    with transaction.atomic(using="postgresql"):
        publish(site)

    assert site.queues.counts()["orders"].ready == WORTH_ASKING + 1


@pytest.mark.parametrize("project", [1, 5])
def test_a_project_whose_driver_prepares_and_drops_by_itself_notices_nothing(site: Store, project: int) -> None:
    publish_often(site)
    for _ in range(3):
        driver().prepare_threshold = project
        with transaction.atomic(using="postgresql"):
            publish(site)
            site.queues.counts()
            transaction.set_rollback(True, using="postgresql")
        with transaction.atomic(using="postgresql"):
            site.queues.counts()
            publish(site)

    assert site.queues.counts()["orders"].ready == WORTH_ASKING + 3


def test_a_transaction_of_a_kind_begins_as_the_driver_says(site: Store) -> None:
    publish_often(site)
    driver().isolation_level = IsolationLevel.SERIALIZABLE

    with transaction.atomic(using="postgresql"):
        publish(site)
        with connections["postgresql"].cursor() as cursor:
            cursor.execute("SHOW transaction_isolation")
            assert cursor.fetchone() == ("serializable",)
        transaction.set_rollback(True, using="postgresql")
    with transaction.atomic(using="postgresql"):
        site.queues.counts()
        publish(site)


def test_a_text_that_the_server_cannot_hold_is_refused_and_not_cut(site: Store) -> None:
    publish_often(site)

    with pytest.raises(StoreError, match="0x00"):
        publish(site, type="a\x00b")

    assert publish(site) > 0


def test_another_encoding_of_texts_is_the_drivers_affair(site: Store) -> None:
    publish_often(site)
    with connections["postgresql"].cursor() as cursor:
        cursor.execute("SET client_encoding TO 'LATIN1'")

    publish(site, type="ü")
    connections["postgresql"].close()

    assert Message.objects.using("postgresql").latest("id").type == "ü"


def test_a_connection_that_died_is_an_outage(site: Store) -> None:
    publish_often(site)
    other = connections.create_connection("postgresql")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [driver().info.backend_pid])
    other.close()

    with pytest.raises(StoreUnavailable):
        publish(site)
