"""What a worker says of the waiting messages that it removes because their tasks were revoked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from celery import signals
from celery.worker import state as worker_state
from celery.worker.control import Panel

from django_mq.delivery.publisher import publish
from django_mq.integrations.celery import revocation
from django_mq.integrations.celery.native import deliver
from django_mq.models import Message
from django_mq.stores.registry import shared_store
from tests.stores.builders import declare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celery import Celery

    from tests.integrations.celery.conftest import Rows

pytestmark = pytest.mark.on("sqlite")


class Events:
    """Replace a worker's event dispatcher."""

    enabled = True

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.sent.append((kind, fields["uuid"]))


class Revoker:
    """A worker, as far as the remote control command ``revoke`` needs one."""

    def __init__(self, app: Celery) -> None:
        self.events = Events()
        self.signals: list[tuple[str, str, bool]] = []
        self._state = SimpleNamespace(
            app=app, hostname="worker", consumer=SimpleNamespace(event_dispatcher=self.events)
        )

    def revoke(self, *task_ids: str) -> None:
        Panel.data["revoke"](self._state, task_id=list(task_ids))  # as remote control calls it

    def revoke_stamps(self, headers: Any) -> None:
        Panel.data["revoke_by_stamped_headers"](self._state, headers=headers)

    def note(self, sender: Any, request: Any, expired: bool, **_: Any) -> None:
        self.signals.append((sender.name, request.id, expired))


@pytest.fixture
def revoker(app: Celery, committed_database: str) -> Iterator[Revoker]:
    commands = dict(Panel.data)
    app.conf.worker_send_task_events = True
    app.tasks["note"].send_events = True
    worker = Revoker(app)
    signals.task_revoked.connect(worker.note, weak=False)
    revocation.install(committed_database)
    yield worker
    signals.task_revoked.disconnect(worker.note)
    Panel.data.update(commands)
    worker_state.revoked.clear()
    worker_state.revoked_stamps.clear()


def test_a_waiting_task_that_is_revoked_is_reported_once(app: Celery, revoker: Revoker, rows: Rows) -> None:
    ready, later, kept = (str(uuid4()) for _ in range(3))
    app.send_task("note", ("ready",), task_id=ready)
    app.send_task("note", ("later",), task_id=later, countdown=3600)
    app.send_task("note", ("kept",), task_id=kept)

    revoker.revoke(ready, later)
    revoker.revoke(ready, later)  # as another worker hears the same command

    assert sorted(revoker.signals) == sorted(("note", id_, False) for id_ in (ready, later))
    assert sorted(revoker.events.sent) == sorted(("task-revoked", id_) for id_ in (ready, later))
    assert [row.correlation_id for row in rows()] == [kept]


def test_a_waiting_task_of_celerys_first_protocol_is_reported_too(
    app: Celery, revoker: Revoker, rows: Rows
) -> None:
    app.conf.task_protocol = 1
    app.send_task("note", ("ready",), task_id=(task_id := str(uuid4())))

    revoker.revoke(task_id)

    assert revoker.signals == [("note", task_id, False)]
    assert revoker.events.sent == [("task-revoked", task_id)]
    assert not rows()


def test_a_waiting_message_of_a_handler_is_reported_as_its_run_would_be(
    app: Celery, revoker: Revoker, rows: Rows, committed_database: str
) -> None:
    declare(shared_store(committed_database), "orders")
    message_id = str(publish("orders", "any body"))

    revoker.revoke(message_id)

    assert revoker.signals == [(deliver.name, message_id, False)]
    assert not rows()


def test_what_cannot_be_reported_is_removed_all_the_same(
    app: Celery, revoker: Revoker, rows: Rows, committed_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    unknown, corrupt, known = (str(uuid4()) for _ in range(3))
    app.send_task("no such task", task_id=unknown)
    app.send_task("note", task_id=corrupt)
    Message.objects.using(committed_database).filter(correlation_id=corrupt).update(body=b"\xff")
    app.send_task("note", task_id=known)

    revoker.revoke(unknown, corrupt, known)

    assert [id_ for _, id_, _ in revoker.signals] == [known]
    assert "no such task" in caplog.text
    assert not rows()


@pytest.mark.parametrize(
    ("headers", "stamps"),
    [
        ({"tenant": ["acme", "shop"]}, {"tenant": ["acme", "shop"]}),
        ({"tenant": "acme", "batch": 7}, {"tenant": ["acme"], "batch": [7]}),
        (["tenant=acme"], {"tenant": ["acme"]}),
    ],
)
def test_revoked_stamps_are_known_to_a_worker_that_starts_later(
    revoker: Revoker, committed_database: str, headers: Any, stamps: dict[str, list[Any]]
) -> None:
    revoker.revoke_stamps(headers)
    worker_state.revoked_stamps.clear()  # as after a restart

    for _ in range(2):
        revocation.recall_stamps(shared_store(committed_database))

    assert {header: sorted(each) for header, each in worker_state.revoked_stamps.items()} == stamps


def test_a_stamp_that_cannot_be_kept_is_named(
    revoker: Revoker, committed_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    revoker.revoke_stamps({"tenant": ["acme", "x" * 200]})

    assert "is too long" in caplog.text
    assert worker_state.revoked_stamps["tenant"] == ["acme", "x" * 200]
    worker_state.revoked_stamps.clear()
    revocation.recall_stamps(shared_store(committed_database))
    assert worker_state.revoked_stamps == {"tenant": ["acme"]}
