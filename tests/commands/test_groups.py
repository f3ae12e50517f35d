"""mq_groups: the groups of a queue, and new owners for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.core.management.base import CommandError

from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.models import Ownership
from django_mq.stores.records import ClaimRequest, SessionInfo
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from tests.commands.conftest import Run

WORKER = SessionInfo(name="worker@host", kind="native", host="h", pid=1, version="1")


@pytest.fixture(autouse=True)
def two_groups(database: str) -> None:
    """A worker owns both, and holds the first message of each."""
    store = shared_store(database)
    declare(store, "orders", {"grouping": "assigned"})
    for number, group in enumerate(["a", "a", "a", "b"]):
        publish("orders", number, group_key=group)
    session = store.sessions.open(WORKER, deadline_seconds=60)
    store.claims.claim(session, ClaimRequest(queues=("orders",), credit=9))


def test_groups_are_shown_with_their_owners(database: str, run: Run) -> None:
    lines = [line.split() for line in run("mq_groups", "orders").splitlines()]

    assert lines == [
        ["GROUP", "READY", "CLAIMED", "WORKER"],
        ["a", "2", "1", "worker@host"],
        ["b", "0", "1", "worker@host"],
    ]
    [first, _] = json.loads(run("mq_groups", "orders", "--json"))
    assert (first["key"], first["ready"], first["worker"]) == ("a", 2, "worker@host")


def test_one_group_or_all_are_freed(database: str, run: Run) -> None:
    left = Ownership.objects.using(database).values_list("group_key", flat=True)

    assert run("mq_groups", "orders", "--free", "a") == "1 group of queue 'orders' freed.\n"
    assert list(left) == ["b"]
    assert json.loads(run("mq_groups", "orders", "--free-all", "--json")) == {"queue": "orders", "freed": 1}
    assert list(left.all()) == []


def test_a_queue_without_groups_says_so_and_an_unknown_queue_is_an_error(database: str, run: Run) -> None:
    declare(shared_store(database), "plain")

    assert run("mq_groups", "plain") == "There are no groups.\n"
    with pytest.raises(CommandError, match="nowhere"):
        run("mq_groups", "nowhere")
