"""A handler with ``durable=True``: what is around a call of its function."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_mq.delivery.consumer.handlers import Handler, Way, result_of
from django_mq.durable.message import DurableMessage
from django_mq.durable.run import DurableRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.codecs import ReceivedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableHandler(Handler):
    """A handler whose function goes on where it was, and which accepts its messages itself."""

    #: Whether the writes of each step commit with its record.
    in_transactions: bool = False

    @property
    def settles_itself(self) -> str:
        return "durable"

    def call(self, message: ReceivedMessage) -> Any:
        """Call the function. Raises Suspended where the message waits, and what the function raises."""
        is_async = self.way is Way.EVENT_LOOP
        run = DurableRun(message, in_transactions=self.in_transactions, is_async=is_async)
        durable = DurableMessage.over(message, run)
        if is_async:
            return self._acall(durable, run)
        with run.ended():
            result = result_of(Handler.call(self, durable))
        run.accept(result)
        return result

    async def _acall(self, durable: DurableMessage, run: DurableRun) -> Any:
        with run.ended():
            result = result_of(await Handler.call(self, durable))
        await sync_to_async(run.accept)(result)
        return result


def made_durable(handler: Handler) -> Handler:
    """Return the handler, as a durable one if it is declared so. Raises TypeError for options it cannot have."""
    if not handler.added.get("durable"):
        return handler
    if handler.way is Way.BULK:
        raise TypeError("gets many messages in a call, and so cannot be durable; leave bulk or durable out")
    given = {item.name: getattr(handler, item.name) for item in fields(Handler)}
    # The body runs outside of a transaction, and each step in one of its own.
    given |= {"transactional": False, "for_message": _unchanged}
    return DurableHandler(**given, in_transactions=handler.transactional)


def _unchanged(handler: Handler, _body: Callable[[], Any]) -> Handler:
    """Return the handler: its options are those of all messages. With it, the message knows its delivery."""
    return handler
