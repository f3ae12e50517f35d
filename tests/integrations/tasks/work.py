"""Tasks for the tests: what they do can be seen in what they return, or raise."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import date
from typing import Any

from django.db import DatabaseError, InterfaceError, connections, transaction

from django_mq.api import Reject
from django_mq.integrations.tasks import options
from django_mq.integrations.tasks.compat import task
from django_mq.models import Queue
from tests.support.waiting import PATIENCE_SECONDS

ran: list[Any] = []


@task
def add(one: Any, two: int = 0) -> Any:
    ran.append((one, two))
    return two if isinstance(one, str) else one + two


@task
async def later(value: Any) -> Any:
    return value


#: Where coroutines wait for each other, of a test that sets it.
meetings: list[asyncio.Barrier] = []


@task
async def meet() -> bool:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await meetings[-1].wait()
    return True


@task
async def sleep() -> None:
    await asyncio.sleep(PATIENCE_SECONDS)


@task(takes_context=True)
def which_attempt(context: Any, until: int) -> int:
    """Fail until an attempt."""
    if context.attempt < until:
        raise ValueError(f"attempt {context.attempt} of {until}")
    return int(context.attempt)


@task
def refuse() -> None:
    raise Reject("never again")


class PaymentError(Exception):
    """An exception that this module has of its own."""


@task
def pay(how: str) -> None:
    if how == "refused":
        raise PaymentError("no money")
    Queue.objects.get(pk=-1)


class Unreadable(dict[str, int]):
    def items(self) -> Any:
        raise LookupError("gone")


#: What JSON cannot express, and what it can, by the argument of `give`.
VALUES = {
    "set": {1, 2},
    "date": date(2031, 1, 1),
    "bytes": b"\xff",
    "list as key": {(1, 2): 3},
    "tuple": (1, 2),
    "number as key": {1: "one"},
    "unreadable": Unreadable(),
}


@task
def lose_the_connection(alias: str, fails: bool) -> int:
    """Work, during which the server ends the connection."""
    ran.append("work")
    end = "SELECT pg_terminate_backend(pg_backend_pid())"
    with suppress(DatabaseError, InterfaceError), connections[alias].cursor() as cursor:
        cursor.execute(end if connections[alias].vendor == "postgresql" else "KILL connection_id()")
    if fails:
        raise PaymentError("no money")
    return 7


@task
def give(what: str) -> Any:
    ran.append(what)
    return VALUES.get(what, what)


@task
def break_after_the_commit(alias: str) -> None:
    transaction.on_commit(lambda: 1 // 0, using=alias)  # type: ignore[arg-type, return-value]


@task
def enqueue_another(fails: bool) -> str:
    """Enqueue one, then fail or not."""
    result = add.enqueue("another", fails)
    if fails:
        raise ValueError("after enqueueing")
    return str(result.id)


@task
@options(max_attempts=2, backoff="constant", backoff_seconds=0.01, reject_on=LookupError, release_on=OSError)
def fail(kind: str) -> None:
    """Raise an error, of which the options say what follows."""
    ran.append(kind)
    raise {"value": ValueError, "lookup": KeyError, "os": ConnectionError}[kind](kind)


@task(takes_context=True)
@options(group_key="one", headers={"tenant": "north"}, soft_time_limit_seconds=5)
def belong(context: Any) -> None:
    context.message.progress(0.5, "half")
    ran.append((context.attempt, context.message.deadline is not None, context.message.cancelled))


@task(priority=50, queue_name="mails")
def mail(to: str) -> str:
    return to


def no_task() -> None:
    ran.append("no task")
