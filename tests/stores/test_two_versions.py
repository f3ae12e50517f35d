"""A process of the version before goes on working when the tables are already the newest.

Its statements name the columns that it knew. An INSERT by such a model leaves out everything newer, and an UPDATE
does not touch it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from django.db.migrations.loader import MigrationLoader

from django_mq import models
from django_mq.diagnosis.state.fleet import fleet
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.states import State
from django_mq.rollups.duty import prune
from django_mq.stores.registry import shared_store
from tests.stores.builders import claim, declare, ids, open_session, pass_time, publish, settle

if TYPE_CHECKING:
    from django_mq.stores.base import Store

#: Columns that came after the first ones, each with a default in the database or null.
LATER = {
    "queue": (
        "counted_at dedup_count dedup_seconds dropped exclusive expiry_queue grouping held_bytes held_messages "
        "last_value_key max_bytes max_consumers max_in_flight max_ttl_seconds min_ttl_seconds other_options "
        "overflow strict wait_seconds"
    ),
    "message": "value_key",
    "workersession": "busy conduct given_credit guarded memory_bytes slots",
    "history": "redelivered",
    "attempt": "type",
}


@cache
def models_before() -> Any:
    state = MigrationLoader(None).project_state(("django_mq", "0002_whole_indexes"))
    for model, columns in LATER.items():
        state.models["django_mq", model].options.update(indexes=[], constraints=[])
        for column in columns.split():
            state.remove_field("django_mq", model, column)
    return state.apps


class OldVersion:
    """What a process of the version before does."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.now = datetime.now(UTC)

    def rows(self, model: str) -> Any:
        return models_before().get_model("django_mq", model).objects.using(self.alias)

    def declares(self, name: str = "orders") -> Any:
        return self.rows("Queue").create(name=name, created_at=self.now)

    def publishes(self, queue: Any) -> Any:
        return self.rows("Message").create(
            queue_id=queue.pk,
            state=State.READY.value,
            level=4,
            priority=4,
            message_id=uuid4(),
            published_at=self.now,
            content_type="json",
            body=b"{}",
        )

    def begins(self, *, deadline_seconds: float = 60.0) -> Any:
        session = self.rows("WorkerSession").create(
            name="old@host",
            kind="native",
            host="host",
            pid=1,
            version="0",
            queues=["orders"],
            started_at=self.now,
            heartbeat_at=self.now,
            deadline=self.now + timedelta(seconds=deadline_seconds),
        )
        self.rows("Consumer").create(session_id=session.pk, queue_name="orders", credit_limit=5)
        return session

    def claims(self, session: Any, message_id: int) -> bool:
        held = {"state": State.CLAIMED.value, "session_id": session.pk, "claim": 7, "claimed_at": self.now}
        return bool(self.rows("Message").filter(pk=message_id, state=State.READY.value).update(**held))

    def accepts(self, message_id: int) -> None:
        message = self.rows("Message").get(pk=message_id)
        self.rows("Message").filter(pk=message_id, claim=7).delete()
        self.rows("History").create(
            message_id=message.message_id,
            queue_name="orders",
            priority=message.priority,
            outcome=1,
            attempts=0,
            published_at=message.published_at,
            ready_at=message.published_at,
            claimed_at=message.claimed_at,
            finished_at=self.now,
        )

    def fails(self, message_id: UUID) -> None:
        self.rows("Attempt").create(
            message_id=message_id, queue_name="orders", number=1, failed_at=self.now, error="ValueError"
        )


@pytest.fixture
def old(database: str) -> OldVersion:
    return OldVersion(database)


@pytest.fixture
def new(database: str) -> Store:
    return shared_store(database)


def test_a_new_worker_handles_what_an_old_process_has_declared_and_published(old: OldVersion, new: Store) -> None:
    message = old.publishes(old.declares())
    session = open_session(new)

    taken = claim(new, session)

    assert ids(taken) == [message.pk]
    assert settle(new, session, taken[0], Verdict.ACCEPT) == frozenset()
    assert models.History.objects.using(new.alias).get().message_id == message.message_id


def test_a_queue_that_an_old_process_has_declared_has_the_defaults_of_what_is_new(
    old: OldVersion, new: Store
) -> None:
    old.declares("old")
    declare(new, "new")
    unlike = {"id", "name", "created_at"}

    old_row, new_row = (
        {field.attname: getattr(row, field.attname) for field in row._meta.local_fields}
        for row in models.Queue.objects.using(new.alias).order_by("id")
    )

    assert [name for name in old_row.keys() - unlike if old_row[name] != new_row[name]] == []


def test_an_old_worker_handles_what_a_new_process_has_declared_and_published(old: OldVersion, new: Store) -> None:
    declare(new)
    first, second = publish(new), publish(new)
    session = old.begins()

    assert old.claims(session, first)
    old.accepts(first)

    assert models.History.objects.using(new.alias).count() == 1
    assert ids(claim(new, open_session(new))) == [second]


def test_an_old_process_changes_rows_and_leaves_alone_what_it_does_not_know(old: OldVersion, new: Store) -> None:
    declare(new, max_in_flight=3, overflow="ring", backoff_ticks_per_second=1000)
    queue = old.rows("Queue").get(name="orders")

    queue.paused = True
    queue.save()
    old.fails(uuid4())

    row = models.Queue.objects.using(new.alias).get(name="orders")
    assert (row.paused, row.max_in_flight, row.overflow) == (True, 3, "ring")
    assert row.options.backoff_ticks_per_second == 1000
    assert models.Attempt.objects.using(new.alias).count() == 1


def test_new_workers_spare_a_living_old_one_and_show_its_consumer(old: OldVersion, new: Store) -> None:
    declare(new)
    held = publish(new)
    session = old.begins()
    old.claims(session, held)

    assert new.sessions.reap() == []

    assert claim(new, open_session(new)) == []
    shown = next(worker for worker in fleet(using=new.alias) if worker.id == session.pk)
    assert [consumer.queue for consumer in shown.consumers] == ["orders"]


def test_new_workers_reap_an_old_one_and_give_back_what_it_held(old: OldVersion, new: Store) -> None:
    declare(new)
    held = publish(new)
    session = old.begins(deadline_seconds=60.0)
    old.claims(session, held)
    pass_time(new, 61)

    (dead,) = new.sessions.reap()

    assert (dead.session_id, dead.released, dead.dead) == (session.pk, 1, 0)
    (again,) = claim(new, open_session(new))
    assert (again.id, again.suspect) == (held, True)
    assert not old.rows("Consumer").exists()


def test_minutes_that_an_old_worker_has_summed_up_are_deleted_when_they_are_old(
    old: OldVersion, new: Store
) -> None:
    for days in (1, 3):
        old.rows("Rollup").create(minute=old.now - timedelta(days=days), queue_name="orders")

    assert (prune(new, 100), old.rows("Rollup").count()) == (1, 1)
