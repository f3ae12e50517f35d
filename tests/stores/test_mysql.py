"""What is MariaDB's and MySQL's own: names as they are spelt, dead-locks, settings that make it slow."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from django_mq.errors import StoreError, StoreUnavailable
from django_mq.stores.mysql.database import TRIES, problems, retried
from django_mq.stores.mysql.store import BYTES, portions
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import private_store, shared_store
from tests.stores.builders import a_message, claim, declare, open_session, publish

if TYPE_CHECKING:
    from django_mq.stores.base import Store

WELL = {"transaction_isolation": "READ-COMMITTED", "sql_mode": "STRICT_TRANS_TABLES,NO_ZERO_DATE"}


@pytest.fixture
def store() -> Store:
    return shared_store("mariadb")


@pytest.fixture
def two() -> Any:
    """Two workers' stores, with the queue ``orders``."""
    stores = [private_store("mariadb"), private_store("mariadb")]
    declare(stores[0])
    yield stores
    for one in stores:
        one.close()


# Names


@pytest.mark.django_db(databases=["mariadb"])
def test_names_that_differ_in_case_are_two_queues(store: Store) -> None:
    declare(store, "Orders")
    declare(store, "orders")
    publish(store, "Orders")

    assert {name: counts.ready for name, counts in store.queues.counts().items()} == {"Orders": 1, "orders": 0}


@pytest.mark.django_db(databases=["mariadb"])
def test_every_character_can_be_stored(store: Store) -> None:
    declare(store, "наряды 🚚")
    publish(store, "наряды 🚚", type="𝄞")

    assert [message.type for message in store.browser.browse("наряды 🚚", states=[1])] == ["𝄞"]


# The migration


@pytest.mark.django_db(databases=["mariadb"])
def test_the_claim_s_index_holds_the_state_and_the_order(store: Any) -> None:
    with store.database.connection.cursor() as cursor:
        found = store.database.connection.introspection.get_constraints(cursor, "django_mq_message")

    ready = found["django_mq_message_ready"]
    assert ready["columns"] == ["queue_id", "state", "level", "place", "id"]
    assert ready["orders"] == ["ASC", "ASC", "DESC", "ASC", "ASC"]
    assert found["django_mq_message_once"]["unique"]
    assert "django_mq_message_dead" not in found


# Locks


@pytest.mark.django_db(databases=["mariadb"], transaction=True)
def test_a_dead_lock_between_two_workers_is_tried_again(two: list[Any]) -> None:
    ids = [publish(two[0]), publish(two[0])]
    both_hold_one = threading.Barrier(2, timeout=30)
    tries: list[int] = []

    class Crossing:
        """Takes the two messages one after the other, each worker the other way round."""

        def __init__(self, store: Any, order: list[int]) -> None:
            self.store, self.order, self.first = store, order, True
            self.database = store.database

        @retried
        def take(self) -> int:
            tries.append(1)
            with self.store.database.transaction():
                self.store.database.rows("bury", ids=self.order[:1], reason="first")
                if self.first:
                    self.first = False
                    both_hold_one.wait()
                self.store.database.rows("redrive_dead", ids=self.order[1:])
            return 1

    with ThreadPoolExecutor(2) as threads:
        crossing = [Crossing(two[0], ids), Crossing(two[1], ids[::-1])]
        acting = [threads.submit(one.take) for one in crossing]
        assert [future.result(timeout=60) for future in acting] == [1, 1]
    assert len(tries) == 3


def test_what_keeps_failing_is_given_up_in_the_end() -> None:
    tries = []

    class Failing:
        database = SimpleNamespace(is_inside=False)

        @retried
        def act(self) -> None:
            tries.append(1)
            raise StoreUnavailable from OSError(1213, "dead-lock")

    with pytest.raises(StoreUnavailable):
        Failing().act()

    assert len(tries) == TRIES


@pytest.mark.django_db(databases=["mariadb"], transaction=True)
def test_an_exchange_is_tried_as_often_as_a_claim(two: Any) -> None:
    session = open_session(two[0])
    texts, tries = two[0].database.text, []

    def failing(name: str, *params: Any) -> str:
        if name != "claim":
            return str(texts(name, *params))
        tries.append(1)
        return "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213"

    two[0].database.text = failing
    with pytest.raises(StoreUnavailable):
        two[0].claims.settle_and_claim(session, [], ClaimRequest(queues=("orders",), credit=1))

    assert len(tries) == TRIES


def test_a_part_of_a_transaction_is_not_tried_again_alone() -> None:
    tries = []

    class Failing:
        database = SimpleNamespace(is_inside=True)

        @retried
        def act(self) -> None:
            tries.append(1)
            raise StoreUnavailable from OSError(1213, "dead-lock")

    with pytest.raises(StoreUnavailable):
        Failing().act()

    assert len(tries) == 1


@pytest.mark.django_db(databases=["mariadb"], transaction=True)
def test_a_caller_who_swallows_a_dead_lock_does_not_commit_half_of_his_transaction(store: Any) -> None:
    declare(store)

    def publish_around_a_dead_lock() -> None:
        with transaction.atomic(using="mariadb"):
            publish(store)
            with suppress(StoreUnavailable), store.database.marking():
                raise StoreUnavailable from OSError(1213, "dead-lock")
            publish(store)

    with pytest.raises((StoreError, transaction.TransactionManagementError)):
        publish_around_a_dead_lock()

    assert store.queues.counts()["orders"].ready == 0


@pytest.mark.django_db(databases=["mariadb"], transaction=True)
def test_what_lies_next_to_claimed_messages_can_be_published(two: list[Any]) -> None:
    publish(two[0], priority=4)
    session = open_session(two[0])

    with two[0].database.transaction():
        two[0].database.rows("claim", queue="orders", session=session, claim=1, credit=10, share_bytes=1000)
        # Gap locks would keep this one waiting.
        two[1].publications.append(a_message(priority=4))

    assert two[0].queues.counts()["orders"].ready == 2


# Settings


@pytest.mark.django_db(databases=["mariadb"])
def test_the_database_of_the_tests_is_well_set_up() -> None:
    assert shared_store("mariadb").server.setting_problems() == []
    assert connections["mariadb"].display_name == "MariaDB"


@pytest.mark.parametrize(
    ("name", "version", "changed", "said"),
    [
        ("MariaDB", (10, 6, 2), {}, "MariaDB 10.6.2 is too old."),
        ("MySQL", (8, 0, 40), {}, "MySQL 8.0.40 is too old."),
        ("MySQL", (8, 4, 1), {"transaction_isolation": "REPEATABLE-READ"}, "REPEATABLE-READ"),
        ("MariaDB", (10, 11, 2), {"transaction_isolation": "", "tx_isolation": "SERIALIZABLE"}, "SERIALIZABLE"),
        ("MariaDB", (10, 11, 2), {"sql_mode": ""}, "cuts values"),
    ],
)
def test_a_setting_that_makes_it_slow_or_fragile_is_a_problem_with_a_hint(
    name: str, version: tuple[int, ...], changed: dict[str, str], said: str
) -> None:
    [(problem, hint)] = problems(name, version, WELL | changed)

    assert said in problem
    assert hint


# Many at once


@pytest.mark.django_db(databases=["mariadb"])
def test_large_messages_travel_in_several_documents(store: Store) -> None:
    declare(store, "orders")
    messages = [a_message(body=bytes([index]) * BYTES, headers='{"a": "\\\\"}') for index in range(3)]

    assert [len(portion) for portion in portions(messages)] == [1, 1, 1]
    numbers = store.publications.append_many(messages)

    found = {message.id: message.body for message in claim(store, open_session(store), credit=3)}
    assert [bytes(found[number]) for number in numbers] == [message.body for message in messages]


@pytest.mark.parametrize(("amount", "sizes"), [(0, []), (1, [1]), (2001, [1000, 1000, 1])])
def test_small_messages_share_a_document(amount: int, sizes: list[int]) -> None:
    messages = [a_message()] * amount

    assert [len(portion) for portion in portions(messages)] == sizes


@pytest.mark.django_db(databases=["mariadb"], transaction=True)
def test_a_text_too_long_for_its_column_refuses_them_all(store: Store) -> None:
    declare(store, "orders")

    with pytest.raises(StoreError):
        store.publications.append_many([a_message(), a_message(correlation_id="x" * 256)])

    assert store.queues.counts()["orders"].ready == 0


# Round trips


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.django_db(databases=["mariadb"], transaction=True)
def test_a_transaction_is_rolled_back_whether_or_not_it_begins_with_its_first_statement(
    two: list[Any], *, together: bool
) -> None:
    two[0].database.connection.settings_dict["OPTIONS"]["multi_statements"] = together

    with suppress(ZeroDivisionError), two[0].database.transaction():
        publish(two[0])
        assert not two[1].browser.browse("orders", states=[1])
        raise ZeroDivisionError
    with two[0].database.transaction():
        pass
    with two[0].database.transaction():
        kept = publish(two[0])

    assert [message.id for message in two[1].browser.browse("orders", states=[1])] == [kept]
