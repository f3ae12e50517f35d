"""A role with SELECT, INSERT, UPDATE and DELETE on the tables, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connections

from django_mq.stores.postgresql.copying import WORTH_COPYING
from django_mq.stores.registry import shared_store
from tests.stores.builders import a_message, claim, declare, ids, open_session, publish

if TYPE_CHECKING:
    from django_mq.stores.base import Store


@pytest.fixture
def store(database: str) -> Store:
    """A store over a connection whose role has been granted the tables alone."""
    store = shared_store(database)
    declare(store)
    if connections[database].vendor == "postgresql":  # elsewhere there are no sequences
        with connections[database].cursor() as cursor:
            cursor.execute("CREATE ROLE mq_writer")
            cursor.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO mq_writer")
            cursor.execute("SET LOCAL ROLE mq_writer")
    return store


def test_many_messages_are_published(store: Store) -> None:
    numbers = store.publications.append_many([a_message() for _ in range(WORTH_COPYING)])

    assert len(numbers) == WORTH_COPYING == store.queues.counts()["orders"].ready
    assert numbers == sorted(numbers)


def test_messages_take_another_priority_in_their_old_order(store: Store) -> None:
    first, second, third = (publish(store, correlation_id=name) for name in "abc")

    assert len(store.operations.prioritise([third, first, second], 7)) == 3

    claimed = claim(store, open_session(store))
    assert [(each.correlation_id, each.priority) for each in claimed] == [("a", 7), ("b", 7), ("c", 7)]
    assert min(ids(claimed)) > third


def test_the_last_arrival_is_known(store: Store) -> None:
    before = store.browser.last_arrival()
    number = publish(store)

    assert store.browser.last_arrival() == number > before


def test_the_doctor_hears_of_sequences_that_may_not_be_used(store: Store, database: str) -> None:
    assert [hint for _, hint in store.server.privilege_problems()] == (
        ["GRANT USAGE ON SEQUENCE public.django_mq_message_id_seq, public.django_mq_history_id_seq to the role."]
        if connections[database].vendor == "postgresql"
        else []
    )
