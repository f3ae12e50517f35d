"""Read the result of a message, or wait for it."""

from __future__ import annotations

import asyncio
import base64
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.delivery import validation
from django_mq.delivery.codecs import decode_body
from django_mq.delivery.publisher import run_apart
from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.ends import STATUS_OF_END, SUCCEEDED, WAITING, End
from django_mq.errors import (
    InvalidMessage,
    ResultFailed,
    ResultTimeout,
    UnknownResult,
    UnsupportedDatabase,
    WaitInTransaction,
)
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta
    from uuid import UUID

    from django_mq.replies.models import MessageResult

#: Time between two looks at the database.
PAUSES = Backoff(base_seconds=0.005, multiplier=1.5, cap_seconds=0.25)


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
    from django_mq.replies.models import MessageResult  # noqa: PLC0415 - as above

    id_ = validation.message_id(message_id)
    if id_ is None:
        raise InvalidMessage("message_id is missing; give the id that publish() has returned.")
    alias = durable(using)
    # The message first: its result is there when it is gone.
    found = list(Message.objects.using(alias).filter(message_id=id_).values_list("state", "dead_reason"))
    row = MessageResult.objects.using(alias).filter(pk=id_, expires_at__gt=clock.now()).first()
    if row is not None and row.status == SUCCEEDED:
        return _of_row(row)
    if any(state != Message.Status.DEAD for state, _ in found):
        return KeptResult(message_id=id_, status=WAITING)
    reason = found[0][1] if found else ""
    if row is not None:
        return _of_row(row, reason)
    if found:
        return KeptResult(message_id=id_, status=STATUS_OF_END[End.DEAD], reason=reason)
    raise UnknownResult(
        f"No result of message {id_} is known. Publish it with keep_result_seconds, read it within this time, and"
        " after the transaction that publishes it."
    )


def _of_row(row: MessageResult, reason: str = "") -> KeptResult:
    value = None
    if row.value is not None:
        stored, encoding = row.value.encode(), row.content_encoding
        body = base64.b64decode(stored) if encoding else stored
        value = decode_body(body, "application/json", encoding or "utf-8")
    return KeptResult(
        message_id=row.message_id,
        status=row.status,
        value=value,
        reason=reason,
        finished_at=row.finished_at,
        expires_at=row.expires_at,
    )


def get_result(message_id: UUID | str, *, timeout_seconds: timedelta | float = 0, using: str | None = None) -> Any:
    """Return what the handler of a message has returned; wait for it up to ``timeout_seconds``.

    Raises ResultTimeout, ResultFailed if the message has ended otherwise, UnknownResult, and WaitInTransaction: in
    a transaction you can look, but not wait.
    """
    looks = _looks(timeout_seconds)
    if timeout_seconds and shared_store(durable(using)).database.in_transaction:
        raise WaitInTransaction(
            "A transaction is open. It may hold the message back, or not see the result: wait after its commit."
        )
    for pause in looks:
        result = result_of(message_id, using=using)
        if result.status != WAITING:
            return value_of(result)
        time.sleep(pause)
    raise _late(message_id, timeout_seconds)


async def aresult_of(message_id: UUID | str, *, using: str | None = None) -> KeptResult:
    """Do what ``result_of`` does, from async code."""
    return await run_apart(lambda: result_of(message_id, using=using))


async def aget_result(
    message_id: UUID | str, *, timeout_seconds: timedelta | float = 0, using: str | None = None
) -> Any:
    """Do what ``get_result`` does, from async code. While it waits, it holds no thread."""
    for pause in _looks(timeout_seconds):
        result = await aresult_of(message_id, using=using)
        if result.status != WAITING:
            return value_of(result)
        await asyncio.sleep(pause)
    raise _late(message_id, timeout_seconds)


def _looks(timeout: timedelta | float) -> Iterator[float]:
    """Return the pauses after each look. Raises InvalidMessage."""
    return _pauses(time.monotonic() + validation.seconds(timeout, "timeout_seconds"))


def _pauses(end: float) -> Iterator[float]:
    tries = 0
    while True:
        tries, left = tries + 1, end - time.monotonic()
        yield max(0.0, min(PAUSES.delay(tries), left))
        if left <= 0:
            return


def value_of(result: KeptResult) -> Any:
    """Return the value of a result. Raises ResultFailed."""
    if result.status == SUCCEEDED:
        return result.value
    raise ResultFailed(result.message_id, result.status, result.reason)


def _late(message_id: UUID | str, timeout: timedelta | float) -> ResultTimeout:
    return ResultTimeout(f"Message {message_id} has not ended within {timeout} seconds; ask again later.")


def durable(using: str | None) -> str:
    """Return the alias. Raises UnsupportedDatabase for queues in memory, which keep no results."""
    alias = using or conf.load().DATABASE
    if not shared_store(alias).features.durable:
        raise UnsupportedDatabase(
            f"The queues of {alias!r} are in memory, which keeps no results; use a database."
        )
    return alias
