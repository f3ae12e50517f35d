"""What a prefork pool keeps when it is told to forget, and what goes back when it ends.

The pool is a replacement: Celery's races are too short.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pytest
from celery.concurrency.prefork import TaskPool
from celery.signals import worker_shutdown
from celery.worker import state
from kombu import Connection, Consumer, Producer, Queue

from django_mq.integrations.celery import internals
from django_mq.integrations.celery.internals import given_task_ids, keep_given
from django_mq.integrations.celery.step import slots_of
from django_mq.models import Message, WorkerSession

if TYPE_CHECKING:
    from tests.integrations.celery.conftest import Rows


class Processes:
    """Celery's pool: forgets what no child has accepted."""

    def __init__(self, **jobs: Any) -> None:
        self._cache = dict(enumerate(jobs.values()))
        for number, made in self._cache.items():
            made._job, made.discard = number, lambda number=number: self._cache.pop(number, None)
        self._pool = [job._write_to for job in jobs.values() if job._write_to is not None]
        self._state = 0
        self._busy_workers: set[int] = set()
        self.outbound_buffer: list[Any] = []
        #: A child that ends, and is missed, while the pool forgets.
        self.ending: Any = None

    def flush(self) -> None:
        for job in [job for job in self._cache.values() if not job._accepted]:
            job.discard()
        self.outbound_buffer.clear()
        self._busy_workers.clear()
        if self.ending is not None:
            self.end(self.ending)

    def end(self, child: Child) -> None:
        """Take note of the end of a child, as Celery does."""
        child.alive = False
        self._pool.remove(child)
        for job in self._cache.values():
            if job._write_to is child and not job._accepted:
                self.outbound_buffer.append(job)

    def begin(self, child: Child) -> None:
        """Start a child whose pipe has the number of an ended child's."""
        self._pool.append(child)
        for job in self._cache.values():
            if job._write_to is not None and job._write_to.inqW_fd == child.inqW_fd:
                job._write_to = child


class Child:
    """One process of the pool."""

    inqW_fd = 7  # noqa: N815 - Celery's name

    def __init__(self) -> None:
        self.alive = True

    def _is_alive(self) -> bool:
        return self.alive


class Messages:
    """A session and a channel: what is not settled, and what was given back."""

    def __init__(self) -> None:
        self.unsettled: set[str] = set()
        self.released: list[str] = []

    def take(self, tag: str) -> bool:
        there = tag in self.unsettled
        self.unsettled.discard(tag)
        return there

    def release(self, claimed: str) -> None:
        self.released.append(claimed)

    def of(self, name: str) -> Any:
        self.unsettled.add(name)
        channel = SimpleNamespace(qos=self)
        return SimpleNamespace(claimed=name, delivery_tag=name, channel=channel, session=self)


def job(name: str, child: Child | None, *, accepted: bool = False, writer: Any = None) -> Any:
    request = Request(None)
    return SimpleNamespace(
        correlation_id=name,
        _write_to=child,
        _accepted=accepted,
        _worker_pid=1 if accepted else None,
        _accept_callback=request.on_accepted,
        _writer=None if writer is None else lambda: writer,
    )


class Request:
    """Celery's request, whose message the pool does not know."""

    def __init__(self, message: Any) -> None:
        self.message = message

    def on_accepted(self) -> None:
        """The pool calls this when a child has accepted the job."""


def half_written() -> Any:
    def write() -> Any:
        yield

    writer = write()
    next(writer)
    return writer


@pytest.fixture(autouse=True)
def no_other_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is seen of the pools of the tests before."""
    monkeypatch.setattr(internals, "_pools", WeakSet())


@pytest.fixture
def child() -> Child:
    return Child()


@pytest.fixture
def messages() -> Messages:
    return Messages()


@pytest.fixture
def processes(child: Child, messages: Messages) -> Processes:
    made = Processes(
        waiting=job("waiting", None),
        half=job("half", child, writer=half_written()),
        given=job("given", child),
        accepted=job("accepted", child, accepted=True),
    )
    made._pool = [child]
    for each in made._cache.values():
        each._accept_callback.__self__.message = messages.of(each.correlation_id)
    return made


def names(processes: Processes) -> set[str]:
    return {item.correlation_id for item in processes._cache.values()}


def flush(processes: Processes) -> None:
    """Have the pool forget, as a worker does that has lost its connection."""
    pool = SimpleNamespace(_pool=processes, flush=processes.flush)
    keep_given(pool)
    pool.flush()


def test_what_a_child_was_given_is_kept_and_its_child_stays_busy(processes: Processes, messages: Messages) -> None:
    flush(processes)

    assert names(processes) == {"given", "accepted"}
    assert processes._busy_workers == {7}
    assert given_task_ids() == {"given"}
    assert [each._accepted for each in processes._cache.values()] == [False, True]
    assert sorted(messages.released) == ["half", "waiting"]


def test_what_the_channel_has_given_back_when_it_closed_is_not_given_back_again(
    processes: Processes, messages: Messages
) -> None:
    messages.unsettled.discard("waiting")

    flush(processes)

    assert messages.released == ["half"]


def test_what_a_child_was_given_that_ends_meanwhile_is_forgotten_and_its_message_goes_back(
    processes: Processes, child: Child, messages: Messages
) -> None:
    processes.ending = child

    flush(processes)

    assert names(processes) == {"accepted"}
    assert processes._busy_workers == set()
    assert given_task_ids() == set()
    assert sorted(messages.released) == ["given", "half", "waiting"]


def test_what_an_ended_child_was_given_is_kept_for_another_until_the_pool_has_missed_the_child(
    processes: Processes, child: Child, messages: Messages
) -> None:
    child.alive = False

    flush(processes)
    assert given_task_ids() == {"given"}
    processes.end(child)

    assert [each.correlation_id for each in processes.outbound_buffer] == ["given"]
    assert given_task_ids() == set()
    assert "given" not in messages.released


def test_what_waits_for_any_child_is_forgotten_although_a_new_child_has_the_pipe_of_the_old_one(
    processes: Processes, child: Child, messages: Messages
) -> None:
    processes.end(child)
    processes.begin(Child())

    flush(processes)

    assert names(processes) == {"accepted"}
    assert processes._busy_workers == set(), "no task is in the pipe of the new child"
    assert sorted(messages.released) == ["given", "half", "waiting"]


def test_a_pool_that_has_been_stopped_leaves_what_an_ended_child_was_given_to_the_broker(
    processes: Processes, child: Child
) -> None:
    flush(processes)
    processes._state, child.alive = 1, False

    assert given_task_ids() == set()


def test_pools_without_processes_stay_as_they_are() -> None:
    solo = SimpleNamespace()

    keep_given(solo)

    assert not hasattr(solo, "flush")


def test_a_heartbeat_finds_no_slot_in_a_pool_that_has_ended() -> None:
    assert slots_of(TaskPool(2)) == 0


def test_what_no_child_has_finished_goes_back_when_the_pool_of_its_worker_has_ended(
    url: str, committed_database: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "active_requests", [SimpleNamespace(id="lost")])
    received: list[Any] = []
    with Connection(url) as connection, Consumer(connection, [Queue("things")], on_message=received.append):
        Producer(connection).publish("work", routing_key="things", headers={"id": "lost"})
        connection.drain_events(timeout=0)
    assert [row.state for row in rows()] == [Message.Status.CLAIMED], "a child may still finish it"

    worker_shutdown.send(sender=None)

    assert [(row.state, row.attempts) for row in rows()] == [(Message.Status.READY, 0)]
    assert not WorkerSession.objects.using(committed_database).exists()
