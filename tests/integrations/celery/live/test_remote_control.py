"""Remote control of live workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from celery.events import EventReceiver

from django_mq.api import Effect, cancel
from django_mq.delivery.operator.commands import send_command
from django_mq.diagnosis.state.running import running_now
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.models import Consumer, History, StopRequest
from tests.integrations.celery.live.hearing import publish_until
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from django_mq.diagnosis.state.running import RunningMessage
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]


def test_a_revoked_task_that_is_due_later_is_gone_whoever_restarts(site: Site) -> None:
    with site.worker():
        later = site.send("note", "revoked", countdown=3600)
        kept = site.send("note", "kept", countdown=3600)
        site.app.control.revoke(later)
        wait_until(lambda: len(site.rows()) == 1, site.story)

    assert [row.correlation_id for row in site.rows()] == [kept]
    assert [line.get_outcome_display() for line in site.finished()] == ["cancelled"]


def test_a_revoked_task_in_the_backlog_never_runs_and_the_others_do(site: Site) -> None:
    site.declare("held")
    with site.worker("-Q", "celery") as worker:
        names = ["a", "b", "c"]
        ids = {name: site.send("note", name, queue="held") for name in names}
        site.app.control.revoke([ids["b"]])
        wait_until(lambda: len(site.rows()) == 2, site.story)
        site.app.control.add_consumer("held", destination=[worker.name])

        site.wait_for_diary(2)
        site.wait_until_settled()

    assert sorted(line["name"] for line in site.diary()) == ["a", "c"]


def test_each_revoked_task_is_reported_once_whichever_worker_removes_it(site: Site) -> None:
    include = ("-c", "1", "--include", "tests.integrations.celery.live.revocations")
    with site.worker(*include, name="one") as one, site.worker(*include, name="two") as two:
        ids = [site.send("note", number, countdown=3600) for number in range(5)]
        ids += [site.send("note", number, queue="unread") for number in range(5)]

        site.app.control.revoke(ids)
        site.wait_until_settled()
        site.wait_for_diary(len(ids), revoked="note")
        for worker in (one, two):  # an answer comes after everything that the command before it did
            assert site.app.control.ping([worker.name], timeout=PATIENCE_SECONDS, limit=1)

    assert sorted(line["id"] for line in site.diary()) == sorted(ids)


def test_a_running_task_is_terminated(site: Site) -> None:
    with site.worker() as worker:
        task = site.send("gated", "endless", "never opened")
        site.wait_for_diary(phase="begun")

        site.app.control.revoke(task, terminate=True, signal="SIGKILL")
        site.wait_until_settled()

        site.send("note", "next")
        site.wait_for_diary(name="next")
        assert worker.stop() == 0
    assert not site.diary(phase="done")


def test_a_task_that_is_cancelled_while_it_runs_or_waits_is_ended(site: Site) -> None:
    with site.worker("-c", "1", "--prefetch-multiplier", "4") as worker:
        for number in range(3):
            site.send("gated", number, "never opened")
        site.wait_for_diary(phase="begun")
        wait_until(lambda: all(row.session_id for row in site.rows()))

        cancel([row.message_id for row in site.rows()][:2], running=True, using=site.alias)
        wait_until(lambda: len(site.diary(phase="begun")) == 2, site.story)
        [last] = site.rows()
        cancel(last.message_id, running=True, using=site.alias)
        site.wait_until_settled()

        assert worker.stop() == 0
    assert sorted(line["name"] for line in site.diary(phase="begun")) == [0, 2]
    assert {line.outcome for line in site.finished()} == {History.Outcome.CANCELLED}
    assert not site.diary(phase="done")


def runs_of(site: Site) -> list[RunningMessage]:
    return running_now(using=site.alias)


def test_a_task_that_was_acknowledged_when_it_began_is_seen_and_ended(site: Site) -> None:
    with site.worker("-c", "1") as worker:
        for number in range(10):
            site.send("gated_early", number, "gate")
        site.open("gate")
        site.wait_for_diary(10, phase="done")
        site.send("gated_early", "endless", "never opened")
        site.wait_for_diary(phase="begun", name="endless")
        # The heartbeat before may have one of the others.
        wait_until(lambda: any(run.usual and run.usual.runs == 10 for run in runs_of(site)), site.story)
        [run] = runs_of(site)
        assert (run.type, run.is_acknowledged) == ("gated_early", True)

        [answer] = cancel([run.message_id], running=True, using=site.alias)
        assert answer.effect is Effect.STOPPING
        site.send("note", "next")
        site.wait_for_diary(name="next")
        wait_until(lambda: not StopRequest.objects.using(site.alias).exists(), site.story)

        assert worker.stop() == 0
    assert not site.diary(phase="done", name="endless")
    assert len(site.diary(phase="begun", name="endless")) == 1
    assert {line.outcome for line in site.finished()} == {History.Outcome.ACCEPTED}


def test_a_pool_of_threads_shows_such_a_task_and_cannot_end_it(site: Site) -> None:
    with site.worker("-c", "1", "--pool", "threads") as worker:
        site.send("gated_early", "slow", "gate")
        wait_until(lambda: runs_of(site), site.story)
        [run] = runs_of(site)

        cancel([run.message_id], running=True, using=site.alias)
        wait_until(lambda: "this pool cannot end what runs" in worker.log, site.story)
        site.open("gate")
        site.wait_for_diary(phase="done", name="slow")
        wait_until(lambda: not (runs_of(site) or StopRequest.objects.using(site.alias).exists()), site.story)

        assert worker.stop() == 0


def test_the_pool_grows_and_shrinks_and_the_prefetch_follows(site: Site) -> None:
    with site.worker("-c", "1", "--prefetch-multiplier", "1") as worker:
        for number in range(6):
            site.send("gated", number, "gate")
        site.wait_for_diary(1, phase="begun")

        site.app.control.pool_grow(2, destination=[worker.name])
        site.wait_for_diary(3, phase="begun")

        site.open("gate")
        site.wait_for_diary(6, phase="done")
        site.app.control.pool_shrink(2, destination=[worker.name])
        site.send("note", "after")
        site.wait_for_diary(name="after")
        assert worker.stop() == 0


def test_events_reach_who_listens(site: Site) -> None:
    seen: list[str] = []
    expected = {"task-received", "task-started", "task-succeeded"}
    with site.worker("-E"), site.app.connection_for_read() as connection:
        receiver = EventReceiver(
            connection, handlers={"*": lambda event: seen.append(event["type"])}, app=site.app
        )

        with receiver.consumer_context(wakeup=False) as (bound, _, _):
            publish_until(
                lambda: expected <= set(seen),
                connection=bound,
                publish=lambda: site.send("note", "event"),
                story=lambda: f"events, of which came {seen}: {site.story()}",
            )


def test_a_worker_obeys_what_an_operator_tells_it(site: Site) -> None:
    """Quiet, another credit, work again, stop: through its session's row."""

    def shown() -> set[tuple[str, str, int]]:
        consumers = Consumer.objects.using(site.alias).filter(queue_name="celery")
        return set(consumers.values_list("session__conduct", "state", "credit_limit"))

    with site.worker("-c", "1", "--prefetch-multiplier", "1") as worker:
        site.send("note", "before")
        site.wait_for_diary(name="before")
        [session] = site.sessions()
        assert send_command(session.pk, mode=WorkerMode.QUIET, credit=7, using=site.alias)
        wait_until(lambda: shown() == {("quiet", "stopping", 7)}, site.story)

        site.send("note", "meanwhile")
        assert send_command(session.pk, mode=WorkerMode.WORK, credit=0, using=site.alias)
        site.wait_for_diary(name="meanwhile")
        wait_until(lambda: {limit for _, _, limit in shown()} == {1}, site.story)

        assert send_command(session.pk, mode=WorkerMode.STOP, using=site.alias)
        assert worker.wait() == 0
    site.wait_until_settled()
    assert site.sessions() == []


def test_a_quiet_worker_leaves_what_is_published_to_others(patient_site: Site) -> None:
    site = patient_site
    with site.worker(name="quiet") as quiet:
        site.send("note", "first")
        site.wait_for_diary(name="first")
        [session] = site.sessions()
        send_command(session.pk, mode=WorkerMode.QUIET, using=site.alias)
        consumers = Consumer.objects.using(site.alias)
        wait_until(lambda: consumers.filter(session=session, state="stopping").exists(), site.story)
        with site.worker(name="other") as other:
            for number in range(5):
                site.send("note", f"later {number}")
            site.wait_for_diary(6)
            site.wait_until_settled()
            workers = {row.session_id for row in site.finished()}
            assert len(workers) == 2
            assert len(site.finished(session_id=session.pk)) == 1
            assert other.stop() == 0
        assert quiet.stop() == 0
