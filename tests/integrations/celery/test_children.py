"""What a prefork pool keeps when it is told to forget. The pool is a replacement: Celery's races are too short."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from celery.concurrency.prefork import TaskPool

from django_mq.integrations.celery.qos import given_task_ids, keep_given
from django_mq.integrations.celery.step import slots_of


class Processes:
    """Celery's pool: forgets what no child has accepted."""

    def __init__(self, **jobs: Any) -> None:
        self._cache = dict(enumerate(jobs.values()))
        self._busy_workers: set[int] = set()
        self.outbound_buffer: list[Any] = []
        self.die: Any = None

    def flush(self) -> None:
        for number in [number for number, job in self._cache.items() if not job._accepted]:
            del self._cache[number]
        if self.die is not None:
            self.die.alive = False


class Child:
    """One process of the pool."""

    inqW_fd = 7  # noqa: N815 - Celery's name

    def __init__(self) -> None:
        self.alive = True

    def _is_alive(self) -> bool:
        return self.alive


def job(name: str, child: Child | None, *, accepted: bool = False, writer: Any = None) -> Any:
    return SimpleNamespace(
        correlation_id=name,
        _write_to=child,
        _accepted=accepted,
        _writer=None if writer is None else lambda: writer,
    )


def half_written() -> Any:
    def write() -> Any:
        yield

    writer = write()
    next(writer)
    return writer


@pytest.fixture
def child() -> Child:
    return Child()


@pytest.fixture
def processes(child: Child) -> Processes:
    return Processes(
        waiting=job("waiting", None),
        half=job("half", child, writer=half_written()),
        given=job("given", child),
        accepted=job("accepted", child, accepted=True),
    )


def names(processes: Processes) -> set[str]:
    return {item.correlation_id for item in processes._cache.values()}


def test_what_a_child_was_given_is_kept_and_its_child_stays_busy(processes: Processes) -> None:
    pool = SimpleNamespace(_pool=processes, flush=processes.flush)
    keep_given(pool)

    pool.flush()

    assert names(processes) == {"given", "accepted"}
    assert processes._busy_workers == {7}
    assert given_task_ids() == {"given"}


def test_what_a_dead_child_was_given_is_forgotten(processes: Processes, child: Child) -> None:
    pool = SimpleNamespace(_pool=processes, flush=processes.flush)
    keep_given(pool)
    processes.die = child

    pool.flush()

    assert names(processes) == {"accepted"}
    assert given_task_ids() == set()


def test_pools_without_processes_stay_as_they_are() -> None:
    solo = SimpleNamespace()

    keep_given(solo)

    assert not hasattr(solo, "flush")


def test_a_heartbeat_finds_no_slot_in_a_pool_that_has_ended() -> None:
    assert slots_of(TaskPool(2)) == 0
