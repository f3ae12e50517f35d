"""Handlers that do as their message says."""

from __future__ import annotations

import os
import signal
from typing import Any

from celery import current_task
from celery.exceptions import Ignore

from django_mq.api import Reject, Release, Retry, consumer, publish
from tests.journeys.project import diary


@consumer("orders")
def handle(message: Any) -> Any:
    """Note the attempt, then do what is asked."""
    diary.write(task=current_task.name, name=message.body, attempt=message.attempt)
    return DEEDS[message.body](message)


@consumer("booked", transactional=True)
def book(message: Any) -> None:
    """Publish another message in the same transaction."""
    publish("orders", "well")


@consumer("slow", time_limit_seconds=1)
def never_end(message: Any) -> None:
    """Wait for an event that never comes."""
    diary.write(name="slow", attempt=message.attempt)
    diary.wait_at("never opened")


def note_death(message: Any) -> None:
    """Note which message is dead."""
    diary.write(name="dead", body=message.body, of=message.correlation_id)


@consumer(
    "ruled",
    max_attempts=3,
    backoff_seconds=0,
    reject_on=KeyError,
    release_on=TimeoutError,
    release_seconds=0.01,
    on_dead=note_death,
)
def follow_rules(message: Any) -> None:
    """Raise what is asked."""
    diary.write(name=message.body, attempt=message.attempt, releases=message.releases)
    if message.body == "busy" and message.releases == 0:
        raise TimeoutError
    if message.body != "busy":
        raise {"fail": ValueError, "missing": KeyError}[message.body]


def _fail(message: Any) -> None:
    raise ValueError(f"no stock for {message.body}")


def _release(message: Any) -> None:
    if not (diary.directory() / "released").exists():
        (diary.directory() / "released").touch()
        raise Release


def _reject(message: Any) -> None:
    raise Reject("never again")


def _retry(message: Any) -> None:
    if message.attempt == 1:
        raise Retry("once more", delay_seconds=0)


def _misled(message: Any) -> None:
    raise Ignore


def _leave(message: Any) -> None:
    raise SystemExit(3)


def _exhaust(message: Any) -> None:
    raise MemoryError("of its own making")


async def _later(message: Any) -> None:
    """Never awaited."""


def _die(message: Any) -> None:
    if message.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def _wait(message: Any) -> None:
    diary.wait_at("never opened")


DEEDS = {
    "answer": lambda message: {"of": str(message.id)},
    "well": lambda message: None,
    "fail": _fail,
    "release": _release,
    "reject": _reject,
    "retry": _retry,
    "ignore": _misled,
    "leave": _leave,
    "memory": _exhaust,
    "later": _later,
    "die": _die,
    "wait": _wait,
}
