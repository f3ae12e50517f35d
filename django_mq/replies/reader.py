"""Read the result of a message, or wait for it."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from django.db import connections

from django_mq import conf
from django_mq.delivery import validation
from django_mq.delivery.codecs import decode_body
from django_mq.delivery.publisher import KEPT_RESULTS, run_apart
from django_mq.engine.decisions.ends import STATUS_OF_END, SUCCEEDED, WAITING, End
from django_mq.errors import (
    InvalidMessage,
    ResultFailed,
    ResultTimeout,
    UnknownResult,
    WaitInTransaction,
)
from django_mq.notifications.waiters import WAITERS
from django_mq.stores.clock import clock
from django_mq.stores.records import time_of
from django_mq.stores.registry import database_store, shared_store, store_for

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

    from django_mq.notifications.waiters import WaitingTask, WaitingThread

#: The longest time between two looks at the database where no hints arrive.
LONGEST_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """How a message stands, and what its handler has returned."""

    message_id: UUID
    #: "waiting", "succeeded", "dead", "expired", "cancelled", "purged" or "replaced".
    status: str
    #: What the handler has returned, as JSON reads it.
    value: Any = None
    #: Why the message is dead, as far as the dead letter is still there.
    reason: str = ""
    finished_at: datetime | None = None
    expires_at: datetime | None = None


def result_of(message_id: UUID | str, *, using: str | None = None) -> KeptResult:
    """Return how a message stands, with its result, at once.

    Raises UnknownResult if the message has ended and no result was kept, or if its time is over.
    """
    from django_mq.models import Message  # noqa: PLC0415 - models; an app may not be installed

    id_ = validation.message_id(message_id)
    if id_ is None:
        raise InvalidMessage("message_id is missing; give the id that publish() has returned.")
    alias = durable(using)
    result = _kept(id_, alias)
    if result is not None and result.status == SUCCEEDED:
        return result
    found = list(Message.objects.using(alias).filter(message_id=id_).values_list("state", "dead_reason"))
    if any(state != Message.Status.DEAD for state, _ in found):
        return KeptResult(message_id=id_, status=WAITING)
    # Again: the result is there when the message is gone.
    result = _kept(id_, alias)
    if result is not None and result.status == SUCCEEDED:
        return result
    reason = found[0][1] if found else ""
    if result is not None:
        return replace(result, reason=reason)
    if found:
        return KeptResult(message_id=id_, status=STATUS_OF_END[End.DEAD], reason=reason)
    raise UnknownResult(
        f"No result of message {id_} is known. Publish it with keep_result_seconds, read it within this time, and"
        " after the transaction that publishes it."
    )


def _kept(id_: UUID, alias: str) -> KeptResult | None:
    """Return the result of a message; None if none is kept, or its time is over."""
    rows = store_for(connections[alias]).database.rows("find_kept_result", message_id=id_, now=clock.now())
    if not rows:
        return None
    [(status, text, encoding, finished_at, expires_at)] = rows
    value = None
    if text is not None:
        stored = text.encode()
        body = base64.b64decode(stored) if encoding else stored
        value = decode_body(body, "application/json", encoding or "utf-8")
    return KeptResult(
        message_id=id_,
        status=status,
        value=value,
        finished_at=time_of(finished_at),
        expires_at=time_of(expires_at),
    )


def get_result(message_id: UUID | str, *, timeout_seconds: timedelta | float = 0, using: str | None = None) -> Any:
    """Return what the handler of a message has returned; wait for it up to ``timeout_seconds``.

    Raises ResultTimeout, ResultFailed if the message has ended otherwise, UnknownResult, and WaitInTransaction: in
    a transaction you can look, but not wait.
    """
    seconds = validation.seconds(timeout_seconds, "timeout_seconds")
    if seconds and shared_store(durable(using)).database.in_transaction:
        raise WaitInTransaction(
            "A transaction is open. It may hold the message back, or not see the result: wait after its commit."
        )
    result = result_of(message_id, using=using)
    if result.status != WAITING or not seconds:
        return value_of(result, seconds)
    with WAITERS.waiting_for([str(result.message_id)]) as pause:
        return waited(pause, result.message_id, seconds, using)


def waited(pause: WaitingThread, id_: UUID, seconds: float, using: str | None, *, is_new: bool = False) -> Any:
    """Return the result of a message when it is there; one that is new has none yet. Raises as ``get_result``."""
    end = time.monotonic() + seconds
    if is_new:
        pause.wait(LONGEST_SECONDS, seconds)
    while True:
        result, left = result_of(id_, using=using), end - time.monotonic()
        if result.status != WAITING or left <= 0:
            return value_of(result, seconds)
        pause.wait(LONGEST_SECONDS, left)


async def aresult_of(message_id: UUID | str, *, using: str | None = None) -> KeptResult:
    """Do what ``result_of`` does, from async code."""
    return await run_apart(lambda: result_of(message_id, using=using))


async def aget_result(
    message_id: UUID | str, *, timeout_seconds: timedelta | float = 0, using: str | None = None
) -> Any:
    """Do what ``get_result`` does, from async code. While it waits, it holds no thread."""
    seconds = validation.seconds(timeout_seconds, "timeout_seconds")
    result = await aresult_of(message_id, using=using)
    if result.status != WAITING or not seconds:
        return value_of(result, seconds)
    with WAITERS.awaiting([str(result.message_id)]) as pause:
        return await awaited(pause, result.message_id, seconds, using)


async def awaited(
    pause: WaitingTask, id_: UUID, seconds: float, using: str | None, *, is_new: bool = False
) -> Any:
    """Do what ``waited`` does, from async code."""
    end = time.monotonic() + seconds
    if is_new:
        await pause.await_(LONGEST_SECONDS, seconds)
    while True:
        result, left = await aresult_of(id_, using=using), end - time.monotonic()
        if result.status != WAITING or left <= 0:
            return value_of(result, seconds)
        await pause.await_(LONGEST_SECONDS, left)


def value_of(result: KeptResult, waited_seconds: float) -> Any:
    """Return the value of a result. Raises ResultFailed, and ResultTimeout if there is none yet."""
    if result.status == SUCCEEDED:
        return result.value
    if result.status == WAITING:
        raise ResultTimeout(
            f"Message {result.message_id} has not ended within {waited_seconds} seconds; ask again later."
        )
    raise ResultFailed(result.message_id, result.status, result.reason)


def durable(using: str | None) -> str:
    """Return the alias. Raises UnsupportedRule for queues in memory."""
    return database_store(using or conf.load().DATABASE, KEPT_RESULTS).alias
