"""Give what has come to a transactional handler at once: its writes and the id commit together.

What the handler refuses is written into its queue, where the rules of the queue and of the handler go on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from django_mq.bridges.inbox import RacedError, Taken, confirm_noted, fresh, keep, take_alone
from django_mq.bridges.incoming import UnreadableError, read
from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handlers import registered
from django_mq.delivery.consumer.unit_of_work import unit_of_work
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import ConfigurationError
from django_mq.stores import queue_records
from django_mq.stores.clock import clock
from django_mq.stores.records import Claimed

if TYPE_CHECKING:
    from django_mq.bridges.incoming import Incoming
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.engine.decisions.receivers import Receiver
    from django_mq.stores.records import NewMessage, Settlement

logger = logging.getLogger("django_mq.bridges")

#: A handler that has run to its end, or that says that its message is not wanted.
DONE = frozenset({Verdict.ACCEPT, Verdict.CANCEL})


class _NotDoneError(Exception):
    """The handler has not accepted the message: what it has written is rolled back."""

    def __init__(self, settlement: Settlement) -> None:
        self.settlement = settlement


def handler_for(receiver: Receiver) -> Handler:
    """Return the handler that a direct receiver calls. Raises ConfigurationError if it cannot."""
    handlers = registered(receiver.queue or "")
    if len(handlers) != 1:
        what = "no handler" if not handlers else f"{len(handlers)} handlers"
        raise ConfigurationError(
            f"The receiver {receiver.name!r} is direct, and its queue {receiver.queue!r} has {what}; it needs one."
        )
    [handler] = handlers
    if not handler.transactional or handler.bulk or handler.selector:
        raise ConfigurationError(
            f"The receiver {receiver.name!r} is direct, but {handler.name} is not; declare it with"
            " transactional=True, and without bulk, type and selector."
        )
    return handler


def handle(store: Any, receiver: Receiver, handler: Handler, arrival: Incoming) -> Taken:
    """Call the handler, and return what has become of the arrival, which may be acknowledged then.

    Raises BlockedError, and StoreError.
    """
    try:
        message = read(arrival, receiver)
    except UnreadableError as error:
        return keep(store, receiver, arrival, str(error))
    try:
        with unit_of_work(), store.database.transaction():
            if not fresh(store, [message]):
                return Taken(duplicates=1)
            _call(Delivery(_claimed(message), handler, _policy(store, message)))
            # PostgreSQL commits nothing of a transaction in which a statement has failed, and says nothing.
            confirm_noted(store, message)
    except RacedError:
        return Taken(duplicates=1)
    except _NotDoneError as error:
        settlement = error.settlement
        if settlement.verdict is Verdict.DEAD:
            return _bury(store, receiver, arrival, message, settlement.reason)
        return take_alone(store, receiver, arrival, settlement.delay_seconds)
    return Taken(received=1)


def _call(delivery: Delivery) -> None:
    """Call the handler. Raises _NotDoneError unless the message is done with."""
    settlement = delivery.run()
    if settlement.verdict not in DONE:
        raise _NotDoneError(settlement)


def _bury(store: Any, receiver: Receiver, arrival: Incoming, message: NewMessage, reason: str) -> Taken:
    """Keep a message that the handler refuses for good, and note its id."""
    with store.database.transaction():
        try:
            fresh(store, [message])
        except RacedError:
            return Taken(duplicates=1)
        return keep(store, receiver, arrival, reason)


def _policy(store: Any, message: NewMessage) -> Any:
    return queue_records.known(store, message.queue_name)


def _claimed(message: NewMessage) -> Claimed:
    """Return the message as a worker has it, at its first attempt."""
    return Claimed(
        id=0,
        claim=0,
        queue_name=message.queue_name,
        level=0,
        place=0,
        priority=message.priority,
        attempts=0,
        redelivered=False,
        suspect=False,
        expired=False,
        message_id=message.message_id,
        type=message.type,
        correlation_id=message.correlation_id,
        group_key=message.group_key,
        published_at=clock.now(),
        deliver_at=None,
        expires_at=None,
        content_type=message.content_type,
        content_encoding=message.content_encoding,
        headers=message.headers,
        properties=message.properties,
        told_to=None,
        body=message.body,
    )
