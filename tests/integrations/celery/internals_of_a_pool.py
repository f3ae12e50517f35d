"""A program that starts a pool of one process, and prints what is found of the names in ``internals.py``.

It is a process of its own, because a pool forks.
"""

from __future__ import annotations

import json
import operator
import sys
import time
from types import SimpleNamespace
from typing import Any

import billiard.common
from celery import Celery
from celery.concurrency.prefork import TaskPool
from celery.result import AsyncResult
from kombu import Connection, Consumer, Queue
from kombu.asynchronous import Hub, set_event_loop
from kombu.asynchronous.semaphore import LaxBoundedSemaphore

from django_mq.integrations.celery import internals

SECONDS = 60


class Request:
    """A bound method of this is what a job calls when a child has begun it."""

    def on_accepted(self, *_: Any) -> None:
        pass


def main(names: list[list[str]]) -> None:
    hub = Hub()
    set_event_loop(hub)
    app = Celery("internals", broker="memory://")
    app.conf.worker_proc_alive_timeout = SECONDS  # a child may start slowly
    tasks = TaskPool(1, app=app, initargs=(app, "internals"), threads=False)
    tasks.start()
    tasks.register_with_event_loop(hub)
    job = tasks.on_apply(operator.abs, (-1,), accept_callback=Request().on_accepted, correlation_id="job")
    turns, end = hub.create_loop(), time.monotonic() + SECONDS
    while not job.ready() and time.monotonic() < end:
        next(turns)
    pool = tasks._pool
    (child,) = pool._pool
    with Connection("memory://") as connection:
        objects = {
            "TaskPool": tasks,
            "AsynPool": pool,
            "Pool": pool,
            "BaseProcess": child,
            "ApplyResult": job,
            "common": billiard.common,
            "LaxBoundedSemaphore": LaxBoundedSemaphore(1),
            "Consumer": Consumer(connection.channel(), [Queue("things")]),
            "AsyncResult": AsyncResult("waited for", app=app),
        }
        found = {f"{of} {name}": hasattr(objects[of.rpartition(".")[2]], name) for of, name in names}
        meanings = {
            "a pool that works is in the state RUN": pool._state == internals.RUN,
            "a child is alive": child._is_alive(),
            "a job knows its child": job._write_to is child and job._worker_pid == child.pid,
            "a job that has begun is accepted": job._accepted,
            "a job knows its request": isinstance(job._accept_callback.__self__, Request),
            "a job that was written and not accepted is given": is_given_unaccepted(job, pool),
            "a job that nothing was written of waits": not internals._is_given(SimpleNamespace(), pool),
            "the receiver of a consumer can be called": callable(internals.receiver_of(objects["Consumer"])),
            "no parent has ended this process": not internals.is_ended_by_parent(),
        }
    sys.stdout.write(json.dumps([found, meanings]))
    sys.stdout.flush()
    tasks.terminate()


def is_given_unaccepted(job: Any, pool: Any) -> bool:
    """Say what ``internals`` thinks of a job whose bytes are in the pipe of its child."""
    job._accepted = False
    try:
        return internals._is_given(job, pool)
    finally:
        job._accepted = True


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
