"""The tables are brought up to date while publishers and workers of both versions go on."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.utils import OperationalError

from django_mq.engine.states import State
from django_mq.models import Queue
from tests.proof.roles import QUEUE
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from tests.proof.conftest import Places
    from tests.proof.place import Place

BEFORE = "0002_whole_indexes"


class OldPublisher(threading.Thread):
    """Publishes as the version before did, one by one, until told to stop."""

    def __init__(self, alias: str) -> None:
        super().__init__()
        self.sent: list[UUID] = []
        self._alias = alias
        self._models: Any = MigrationLoader(None).project_state(("django_mq", BEFORE)).apps
        self._queue_id = Queue.objects.using(alias).values_list("pk", flat=True).get(name=QUEUE)
        self._over = threading.Event()

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._publish(uuid4())
        finally:
            connections[self._alias].close()

    def _publish(self, message_id: UUID) -> None:
        self._models.get_model("django_mq", "Message").objects.using(self._alias).create(
            queue_id=self._queue_id,
            state=State.READY.value,
            level=4,
            priority=4,
            message_id=message_id,
            published_at=datetime.now(UTC),
            content_type="json",
            body=b"1",
        )
        self.sent.append(message_id)

    def stop(self) -> None:
        self._over.set()
        self.join(PATIENCE_SECONDS)


def test_the_version_before_publishes_all_the_while(place: Place) -> None:
    migrate(place, BEFORE)
    publisher = OldPublisher(place.alias)
    publisher.start()
    wait_until(lambda: publisher.sent)

    migrate(place)
    migrated = len(publisher.sent)
    wait_until(lambda: len(publisher.sent) > migrated)
    publisher.stop()
    ended = place.finish()

    assert set(publisher.sent) == ended.accepted.keys()


def migrate(place: Place, to: str | None = None) -> None:
    call_command("migrate", "django_mq", *[to] if to else [], database=place.alias, verbosity=0)


def test_no_migration_but_the_value_key_s_waits_for_publishers(places: Places) -> None:
    with places("postgresql") as place:
        migrate(place, BEFORE)
        with psycopg.connect(place.url) as writer:
            writer.execute("LOCK TABLE django_mq_message IN ROW EXCLUSIVE MODE")
            give_up_after(place, "10s")
            migrate(place, "0009")
            give_up_after(place, "50ms")
            with pytest.raises(OperationalError, match="lock timeout"):
                migrate(place, "0010")


def give_up_after(place: Place, patience: str) -> None:
    """Have this thread's connection wait no longer for any lock."""
    with connections[place.alias].cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [patience])


def test_postgresql_builds_the_indexes_of_messages_beside_publishers(places: Places) -> None:
    with places("postgresql") as place:
        migrate(place, "0010")
        builder = threading.Thread(target=migrate_and_leave, args=[place])
        publisher = OldPublisher(place.alias)
        with psycopg.connect(place.url) as writer:
            # The migration that makes an index waits for this lock; publishers must not wait for the index.
            writer.execute("LOCK TABLE django_mq_message IN ROW EXCLUSIVE MODE")
            builder.start()
            wait_until(lambda: is_building(place))
            publisher.start()
            wait_until(lambda: publisher.sent)
            publisher.stop()
            assert builder.is_alive()
        builder.join(PATIENCE_SECONDS)

        assert indexes(place) == {"django_mq_message_value": True, "django_mq_message_retrying": True}


def migrate_and_leave(place: Place) -> None:
    try:
        migrate(place)
    finally:
        connections[place.alias].close()


def is_building(place: Place) -> bool:
    with connections[place.alias].cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'CREATE INDEX%'"
            " AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone() is not None


def indexes(place: Place) -> dict[str, bool]:
    """Return which of the two there are, and whether each is valid."""
    with connections[place.alias].cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text, indisvalid FROM pg_index WHERE indexrelid::regclass::text IN"
            " ('django_mq_message_value', 'django_mq_message_retrying')"
        )
        return dict(cursor.fetchall())


def test_a_build_that_was_broken_off_begins_anew(places: Places) -> None:
    with places("postgresql") as place:
        migrate(place, "0010")
        with psycopg.connect(place.url) as writer:
            writer.execute("LOCK TABLE django_mq_message IN ROW EXCLUSIVE MODE")
            give_up_after(place, "50ms")
            with pytest.raises(OperationalError, match="lock timeout"):
                migrate(place)
        connections[place.alias].close()
        assert indexes(place) == {"django_mq_message_value": False}

        migrate(place)

        assert indexes(place) == {"django_mq_message_value": True, "django_mq_message_retrying": True}
