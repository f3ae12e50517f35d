"""A message exists if and only if the caller's transaction commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import DuplicateMessage, StoreError, UnknownQueue
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import private_store, shared_store
from tests.stores.builders import a_message, claim, declare, ids, open_session, publish, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.base import Store


@pytest.fixture
def publisher(database: str) -> Store:
    """A store over the test's own Django connection, with the queue ``orders``."""
    store = shared_store(database)
    declare(store)
    return store


@pytest.fixture
def site(committed_database: str) -> Store:
    """The same where commits are real."""
    store = shared_store(committed_database)
    declare(store)
    return store


@pytest.fixture
def worker(committed_database: str) -> Iterator[Store]:
    """A worker's store, on a connection of its own."""
    store = private_store(committed_database)
    yield store
    store.close()


def ready(store: Store) -> int:
    return store.queues.counts()["orders"].ready


@pytest.mark.parametrize("amount", [1, 2, 100])
def test_a_rolled_back_transaction_leaves_no_message(publisher: Store, amount: int) -> None:
    with transaction.atomic(using=publisher.alias):
        publisher.publications.append_many([a_message() for _ in range(amount)]) if amount > 1 else publish(
            publisher
        )
        assert ready(publisher) > 0
        transaction.set_rollback(True, using=publisher.alias)

    assert ready(publisher) == 0


def test_a_rolled_back_savepoint_takes_only_its_own_messages(publisher: Store) -> None:
    with transaction.atomic(using=publisher.alias):
        kept = publish(publisher)
        with transaction.atomic(using=publisher.alias):
            publish(publisher)
            publisher.publications.append_many([a_message()])
            transaction.set_rollback(True, using=publisher.alias)
        later = publish(publisher)

    assert ids(claim(publisher, open_session(publisher))) == [kept, later]


@pytest.mark.parametrize("refused", [UnknownQueue, DuplicateMessage])
def test_a_refused_publish_leaves_the_caller_s_transaction_alive(
    publisher: Store, refused: type[Exception]
) -> None:
    there = a_message()
    bad = there if refused is DuplicateMessage else a_message("nowhere")
    with transaction.atomic(using=publisher.alias):
        publisher.publications.append(there)
        with pytest.raises(refused):
            publisher.publications.append(bad)
        with pytest.raises(refused):
            publisher.publications.append_many([a_message(), bad])
        with pytest.raises(refused):
            publisher.publications.append_many([*(a_message() for _ in range(100)), bad])
        publish(publisher)

    assert ready(publisher) == 2


def test_nobody_sees_a_message_before_the_commit(site: Store, worker: Store) -> None:
    session = open_session(worker)

    with transaction.atomic(using=site.alias):
        id_ = publish(site)
        # Looking only: on SQLite the open transaction holds the one write lock.
        seen = ready(worker)

    assert (seen, ids(claim(worker, session))) == (0, [id_])


def test_a_message_published_outside_a_transaction_is_there_at_once(site: Store, worker: Store) -> None:
    publish(site)
    site.publications.append_many([a_message(), a_message()])

    assert ready(worker) == 3


def test_a_worker_s_transaction_that_fails_leaves_nothing_behind(site: Store, worker: Store) -> None:
    published = [publish(site), publish(site)]
    session = open_session(worker)
    first = claim(worker, session, credit=1)[0]
    broken = ClaimRequest(queues=("orders",), credit="many")  # type: ignore[arg-type]

    with pytest.raises((StoreError, TypeError)):  # MariaDB's store reckons with the credit before it claims
        worker.claims.settle_and_claim(session, [verdict(first, Verdict.ACCEPT)], broken)

    assert worker.settlements.settle(session, [verdict(first, Verdict.RELEASE)]) == frozenset()
    assert ids(claim(worker, session)) == published


def test_a_worker_s_verdicts_and_handler_writes_may_share_a_transaction(site: Store, worker: Store) -> None:
    publish(site)
    publish(site)
    session = open_session(worker)
    first, second = claim(worker, session)

    with transaction.atomic(using=site.alias):
        publish(site)
        site.settlements.settle(session, [verdict(first, Verdict.ACCEPT)])
        transaction.set_rollback(True, using=site.alias)
    with transaction.atomic(using=site.alias):
        site.settlements.settle(session, [verdict(second, Verdict.ACCEPT)])

    assert (ready(site), site.queues.counts()["orders"].claimed) == (0, 1)
    assert worker.settlements.settle(session, [verdict(first, Verdict.ACCEPT)]) == frozenset()


def test_a_commit_by_another_connection_moves_the_change_marker(site: Store, worker: Store) -> None:
    if not worker.features.notices_changes:
        assert worker.database.change_marker() is None
        pytest.skip("features.notices_changes: this database has no change marker")
    before = worker.database.change_marker()

    unchanged = worker.database.change_marker()
    publish(site)
    changed = worker.database.change_marker()

    assert unchanged == before != changed


def test_a_reopened_connection_never_looks_unchanged(site: Store, worker: Store) -> None:
    if not worker.features.notices_changes:
        pytest.skip("features.notices_changes: this database has no change marker")
    before = worker.database.change_marker()

    worker.close()

    assert worker.database.change_marker() != before


def test_a_closed_worker_s_store_opens_again_by_itself(site: Store, worker: Store) -> None:
    publish(site)
    worker.close()

    assert ready(worker) == 1
