"""A Celery worker gives back the tasks of a paused queue that wait for a process of its pool."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.api import publish
from django_mq.delivery.operator.recalls import recalled
from django_mq.models import Consumer
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.journeys.site import Site
    from tests.journeys.worker import Worker

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]


@contextmanager
def a_busy_worker(site: Site, task: str, *options: str, held: int, more: int = 3) -> Iterator[Worker]:
    """A worker of one process that runs a task, and has prefetched some more; it ends when they have ended."""
    site.send(task, "first", "gate")
    for number in range(more):
        site.send("late", number)
    with site.worker("-Q", "celery", "-c", "1", "--prefetch-multiplier", "4", *options) as worker:
        site.wait_for_diary(name="first")
        wait_until(lambda: site.states() == {"claimed": held}, site.story)
        yield worker
        site.open("gate")
        site.wait_until_settled(queue__name="celery")
        wait_until(lambda: shown(site) == {"interested"}, site.story)
        assert worker.stop() == 0


def shown(site: Site) -> set[Any]:
    """The states of the worker's consumers."""
    return set(Consumer.objects.using(site.alias).values_list("state", flat=True))


@pytest.mark.parametrize(("task", "running"), [("gated", {"claimed": 1}), ("gated_early", {})])
def test_a_pause_takes_back_what_no_process_has_begun_and_each_task_runs_once(
    site: Site, task: str, running: dict[str, int]
) -> None:
    with a_busy_worker(site, task, held=3 + len(running)) as worker:
        site.run("django", "mq_pause", "celery")
        wait_until(lambda: site.states() == Counter(ready=3, **running), site.story)
        assert worker.ask("reserved", site.app) == []
        site.run("django", "mq_cancel", "--queue", "celery", "--limit", "1", "--yes")
        site.run("django", "mq_resume", "celery")

    assert [line["name"] for line in site.diary()] == ["first", "first", 1, 2]


@pytest.mark.parametrize(
    ("task", "running", "command"),
    [
        ("gated", {"claimed": 1}, ["mq_purge", "celery", "--yes"]),
        ("gated_early", {}, ["mq_move", "celery", "other", "--state=ready"]),
    ],
)
def test_a_purge_and_a_move_reach_what_no_process_has_begun_and_the_queue_delivers_again(
    site: Site, task: str, running: dict[str, int], command: list[str]
) -> None:
    site.declare("other")
    with a_busy_worker(site, task, held=3 + len(running)):
        site.run("django", *command)
        assert site.states(queue__name="celery") == running
        site.send("late", "later")

    assert [line["name"] for line in site.diary()] == ["first", "first", "later"]
    assert site.states() == Counter({"ready": 3} if command[0] == "mq_move" else {})


@pytest.mark.parametrize(("pool", "more"), [("prefork", 0), ("threads", 2)])
def test_an_act_waits_until_the_worker_has_looked_and_not_until_tasks_end(
    site: Site, pool: str, more: int
) -> None:
    with (
        a_busy_worker(site, "gated", "-P", pool, held=1 + more, more=more),
        recalled(["celery"], using=site.alias),
    ):
        assert (shown(site), site.states()) == ({"paused"}, {"claimed": 1 + more})


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_purge_reaches_tasks_that_wait_for_their_rate_limit(site: Site, pool: str) -> None:
    for number in range(3):
        site.send("rare", number, queue="rare")
    with site.worker("-Q", "rare", "-c", "1", "-P", pool) as worker:
        site.wait_for_diary(name=0)
        wait_until(lambda: site.states() == {"parked": 2}, site.story)
        assert worker.ask("reserved", site.app) == []

        site.run("django", "mq_purge", "rare", "--yes")
        assert site.states() == {}
        assert worker.stop() == 0

    assert [line["name"] for line in site.diary()] == [0]


def test_a_purge_reaches_what_no_process_has_begun_of_a_handler(site: Site) -> None:
    for queue in ("orders", "booked", "slow", "ruled"):
        site.declare(queue)
    for body in ("wait", "well", "well"):
        publish("orders", body, using=site.alias)
    with site.worker("-c", "1", JOURNEY_APPS="tests.integrations.celery.live.watched") as worker:
        site.wait_for_diary(name="wait")
        wait_until(lambda: site.states() == {"claimed": 3}, site.story)

        site.run("django", "mq_purge", "orders", "--yes")
        assert site.states() == {"claimed": 1}
        site.open("never opened")
        site.wait_until_settled()
        assert worker.stop() == 0

    assert [line["name"] for line in site.diary()] == ["wait"]
