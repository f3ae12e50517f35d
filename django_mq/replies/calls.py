"""Publish a message and wait for its result.

A call is a message with a time to live, whose result is kept for a short time. So it has all options of queues,
and there is no second way for replies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from django_mq.delivery import validation
from django_mq.delivery.codecs import new_message_id
from django_mq.delivery.publisher import apublish, publish
from django_mq.engine.decisions.ends import STATUS_OF_END, End
from django_mq.errors import InvalidMessage, ResultFailed, ResultTimeout, WaitInTransaction
from django_mq.notifications.waiters import WAITERS
from django_mq.replies.reader import awaited, durable, waited
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from django_mq.delivery.consumer.handler_function import PublishOptions

#: For how long the result of a call is kept. Its caller has read it or gone by then.
KEEP_SECONDS = 60.0
#: The options of ``publish`` that a call sets itself, or that make no sense with one.
OWN = ("ttl", "expires_at", "delay", "deliver_at", "keep_result_seconds", "unique", "exchange")


def call(
    queue: str,
    body: Any = None,
    *,
    timeout_seconds: timedelta | float,
    **options: Unpack[PublishOptions],
) -> Any:
    """Publish a message, wait until its handler has returned, and return what it has returned.

    A message that has not begun by then expires. Raises ResultTimeout, ResultFailed if the message has ended
    otherwise, WaitInTransaction before anything is written, and what ``publish`` raises.
    """
    seconds, using = _checked(timeout_seconds, options), options.get("using")
    if shared_store(durable(using)).database.in_transaction:
        raise WaitInTransaction(
            "A transaction is open: no worker would see the request before it commits. Call before the"
            " transaction, or after it."
        )
    own = _with_own(options, seconds)
    with WAITERS.waiting_for([str(own["message_id"])]) as pause:
        message_id = publish(queue, body, **own)
        try:
            return waited(pause, message_id, seconds, using, is_new=True)
        except ResultFailed as error:
            raise _named(error) from None


async def acall(
    queue: str,
    body: Any = None,
    *,
    timeout_seconds: timedelta | float,
    **options: Unpack[PublishOptions],
) -> Any:
    """Do what ``call`` does, from async code: it publishes in a transaction of its own, and holds no thread."""
    seconds, using = _checked(timeout_seconds, options), options.get("using")
    durable(using)
    own = _with_own(options, seconds)
    with WAITERS.awaiting([str(own["message_id"])]) as pause:
        message_id = await apublish(queue, body, **own)
        try:
            return await awaited(pause, message_id, seconds, using, is_new=True)
        except ResultFailed as error:
            raise _named(error) from None


def _checked(timeout: timedelta | float, options: Mapping[str, Any]) -> float:
    if wrong := [name for name in OWN if name in options]:
        raise InvalidMessage(
            f"call() takes no {', '.join(wrong)}; timeout_seconds says how long the request lives."
        )
    seconds = validation.seconds(timeout, "timeout_seconds")
    if seconds == 0:
        raise InvalidMessage("timeout_seconds is 0; give the seconds in which you need the reply.")
    return seconds


def _with_own(options: PublishOptions, seconds: float) -> PublishOptions:
    # Known before the message is published: a hint may come with the publish.
    message_id = validation.message_id(options.get("message_id")) or new_message_id()
    return {**options, "message_id": message_id, "ttl": seconds, "keep_result_seconds": KEEP_SECONDS}


def _named(error: ResultFailed) -> Exception:
    """Return the error of a call: a request that has expired was late."""
    if error.status == STATUS_OF_END[End.EXPIRED]:
        return ResultTimeout(f"Message {error.message_id} has expired before its handler began.")
    return error
