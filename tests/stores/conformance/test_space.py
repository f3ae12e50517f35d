"""What the tables take of the disk, by the database's own statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.stores.builders import a_message
from tests.stores.conftest import AS_PUBLISHER

if TYPE_CHECKING:
    from django_mq.stores.base import Store

pytestmark = AS_PUBLISHER


def test_sizes_are_told_without_reading_a_table(store: Store, orders: str) -> None:
    store.publications.append_many([a_message() for _ in range(100)])

    spaces = store.server.spaces()

    # The store in memory has no tables, and a database in memory no journal.
    assert bool(spaces) == store.features.durable
    assert not spaces or max(space.size for space in spaces) > 0
    assert all(space.size >= 0 and space.loose >= 0 for space in spaces)
    assert len({space.table for space in spaces}) == len(spaces)


def test_small_tables_are_no_problem(store: Store, orders: str) -> None:
    assert store.server.space_problems(store.server.spaces()) == []
