"""What a dead letter is: every list, figure and command gives the same answer."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from django.core.management.base import CommandError

from django_mq.api import publish
from django_mq.delivery.operator.actions import publish_instead
from django_mq.delivery.operator.bindings import bind
from django_mq.delivery.operator.queue_editor import create_queue, edit_queue
from django_mq.diagnosis.doctor.work import look_at_queues
from django_mq.diagnosis.messages.copies import copy_of
from django_mq.diagnosis.messages.criteria import narrowed
from django_mq.diagnosis.messages.indexes import DEAD_LETTERS
from django_mq.diagnosis.state.overview import overview
from django_mq.engine.decisions.dead_letters import DEFAULT_EXCHANGE
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import MQError
from django_mq.models import Message
from django_mq.models.times import UTCNow
from django_mq.stores.records import SessionInfo
from django_mq.stores.registry import shared_store
from tests.commands.test_mending import ready, settle

if TYPE_CHECKING:
    from tests.commands.conftest import Run

pytestmark = pytest.mark.on("sqlite")


@pytest.fixture(params=["dead_letter_queue", "dead_letter_exchange", "default exchange", "expiry_queue"])
def graveyard(request: pytest.FixtureRequest, database: str) -> str:
    """A queue ``hooks`` that sends its dead or expired messages to ``hooks.dead``, where two of them are."""
    create_queue("hooks.dead", {}, using=database)
    options = {
        "dead_letter_exchange": {"dead_letter_exchange": "failures"},
        "default exchange": {"dead_letter_exchange": DEFAULT_EXCHANGE, "dead_letter_routing_key": "hooks.dead"},
    }
    create_queue("hooks", options.get(request.param, {request.param: "hooks.dead"}), using=database)
    bind("failures", "hooks.dead", exchange_type="fanout", using=database)
    create_queue("other", {}, using=database)
    publish("hooks", 1)
    publish("hooks", 2)
    if request.param == "expiry_queue":
        Message.objects.using(database).update(expires_at=UTCNow())
        shared_store(database).maintenance.expire()
    else:
        settle(database, "hooks", Verdict.DEAD)
    return "hooks.dead"


def figures(run: Run, queue: str, alias: str) -> dict[str, int]:
    """Return how many dead letters of a queue each list, figure and command finds."""
    [state] = overview([queue], using=alias)
    rows = Message.objects.using(alias)
    listed = narrowed(rows, {"state": DEAD_LETTERS, "queue": queue}, datetime.now(UTC))
    findings = [one.sentence for one in look_at_queues(alias) if one.about == f"queue {queue}"]
    told = [sentence.split()[0] for sentence in findings if " of other queues" in sentence]
    return {
        "overview": state.dead_letters,
        "list": listed.count(),
        "list of all": narrowed(rows, {"state": DEAD_LETTERS}, datetime.now(UTC)).count(),
        "rows": sum(row.is_dead_letter for row in rows.all()),
        "doctor": int(told[0]) if told else 0,
        "redrive": json.loads(run("mq_redrive", queue, "--dry-run", "--json"))["would_be_redriven"],
    }


def test_a_message_published_to_a_dead_letter_queue_is_no_dead_letter(
    database: str, run: Run, graveyard: str
) -> None:
    publish(graveyard, "published here")

    assert set(figures(run, graveyard, database).values()) == {2}
    printed = run("mq_redrive", graveyard)
    assert printed == (
        "2 messages redriven.\n  2 to 'hooks'\n  1 ready message is no dead letter: --to QUEUE moves all.\n"
    )
    assert (ready(database, "hooks"), ready(database, graveyard)) == ([1, 2], ["published here"])


def test_a_redrive_with_a_target_moves_all_of_a_dead_letter_queue_and_leaves_no_dead_letter(
    database: str, run: Run, graveyard: str
) -> None:
    publish(graveyard, "published here")
    publish("hooks", "waits")

    run("mq_redrive", graveyard, "--to", "other")
    run("mq_redrive", "hooks", "--to", "other")

    assert ready(database, "other") == [1, 2, "published here"]
    assert ready(database, "hooks") == ["waits"]
    assert set(figures(run, "other", database).values()) == {0}
    assert json.loads(run("mq_redrive", "--queue", "other", "--json"))["redriven"] == 0


def test_a_moved_dead_letter_named_by_its_id_stays_where_it_was_moved(
    database: str, run: Run, graveyard: str
) -> None:
    publish(graveyard, "published here")
    run("mq_redrive", graveyard, "--to", "other")
    moved = Message.objects.using(database).filter(queue__name="other").latest("pk").message_id

    with pytest.raises(SystemExit):
        run("mq_redrive", moved)

    assert len(ready(database, "other")) == 3


TASK = {"lang": "py", "task": "shop.pay", "id": "abc", "timelimit": [None, None], "retries": 3}


@pytest.mark.parametrize("command", [("mq_redrive", "hooks.dead"), ("mq_move", "--queue=kept", "--to=other")])
@pytest.mark.parametrize("graveyard", ["dead_letter_queue"], indirect=True)
def test_a_dead_letter_of_celery_has_new_attempts(
    database: str, run: Run, graveyard: str, command: tuple[str, ...]
) -> None:
    create_queue("kept", {}, using=database)
    Message.objects.using(database).filter(queue__name=graveyard).delete()
    source = "hooks" if command[0] == "mq_redrive" else "kept"
    publish(source, 1, headers=TASK)
    publish(source, 2, headers={"retries": 3})  # no task: a header of the publisher
    settle(database, source, Verdict.DEAD)
    publish(source, 3, headers=TASK)

    run(*command, *(["--state=dead"] if source == "kept" else []))

    rows = Message.objects.using(database).filter(state=Message.Status.READY).order_by("pk")
    assert {json.loads(bytes(row.body)): row.headers["retries"] for row in rows} == {1: 0, 2: 3, 3: 3}


def test_a_dead_letter_that_went_round_in_a_cycle_has_new_rounds(database: str, run: Run) -> None:
    create_queue("waits", {}, using=database)
    create_queue("work", {"dead_letter_queue": "waits", "max_dead_letter_cycles": 1}, using=database)
    publish("work", 1)

    for _ in range(2):
        settle(database, "work", Verdict.DEAD)
        waiting = list(Message.objects.using(database).filter(queue__name="waits").values_list("pk", flat=True))
        shared_store(database).operations.move(waiting, "work")

    assert Message.objects.using(database).get().state == Message.Status.DEAD
    run("mq_redrive", "work")
    settle(database, "work", Verdict.DEAD)
    assert Message.objects.using(database).get().queue.name == "waits"


def test_what_waits_for_its_retry_is_no_dead_letter_and_needs_no_worker(database: str, run: Run) -> None:
    create_queue("work", {}, using=database)
    create_queue("waits", {"ttl_seconds": 60, "expiry_queue": "work"}, using=database)
    edit_queue("work", {"dead_letter_queue": "waits"}, using=database)
    publish("work", 1)
    settle(database, "work", Verdict.DEAD)

    assert ready(database, "waits") == [1]
    assert set(figures(run, "waits", database).values()) == {0}
    assert [one for one in look_at_queues(database) if one.about == "queue waits"] == []


def test_what_waits_for_its_end_in_a_dead_letter_queue_is_a_dead_letter(database: str, run: Run) -> None:
    create_queue("archive", {}, using=database)
    create_queue("work.dead", {"ttl_seconds": 3600, "expiry_queue": "archive"}, using=database)
    create_queue("work", {"dead_letter_queue": "work.dead"}, using=database)
    publish("work", 1)
    settle(database, "work", Verdict.DEAD)

    assert set(figures(run, "work.dead", database).values()) == {1}


@pytest.mark.parametrize("served", ["", "late"])
@pytest.mark.parametrize("way", ["expiry_queue", "dead_letter_exchange"])
def test_a_queue_whose_messages_expire_needs_a_worker_unless_another_takes_them(
    database: str, way: str, served: str
) -> None:
    create_queue("late", {}, using=database)
    options = {
        "expiry_queue": {"expiry_queue": "late"},
        "dead_letter_exchange": {"dead_letter_exchange": "expired"},
    }
    create_queue("work", {"ttl_seconds": 3600, **options[way]}, using=database)
    bind("expired", "late", exchange_type="fanout", using=database)
    if served:
        worker = SessionInfo(name="w", kind="native", host="h", pid=1, version="1", queues=[served])
        shared_store(database).sessions.open(worker, deadline_seconds=60)
    publish("work", 1)

    [state] = overview(["work"], using=database)
    assert state.rests == bool(served)


def test_a_copy_may_cancel_its_original(database: str, run: Run, graveyard: str) -> None:
    [first, second] = Message.objects.using(database).order_by("pk").values_list("message_id", flat=True)

    run("mq_publish", "hooks", "7", "--copy", first, "--cancel-original")
    with pytest.raises(MQError, match="cannot be cancelled"):
        publish_instead(replace(copy_of(second, using=database), queue="hooks"), None, using=database)

    assert (ready(database, "hooks"), ready(database, graveyard)) == ([7], [2])
    with pytest.raises(CommandError, match="goes with --copy"):
        run("mq_publish", "hooks", "7", "--cancel-original")
