"""Holds a key that a service has limited, when a handler says so by ``RateLimited``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.delivery.validation import seconds
from django_mq.engine.decisions.keyed_limits import Throttle
from django_mq.engine.message import Message
from django_mq.errors import InvalidMessage, RateLimited
from django_mq.stores.records import Write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.engine.decisions.keyed_limits import KeyedLimit
    from django_mq.seams.middleware import Execution, Proceed
    from django_mq.stores.base import Store


class Hold(NamedTuple):
    """A key of a limit that waits."""

    queue: str
    limit: str
    key: str
    seconds: float


def hold_all(store: Store, holds: Iterable[list[Hold]]) -> None:
    """Let the keys wait, on all workers. Raises StoreError."""
    for hold in (each for some in holds for each in some):
        store.rates.hold(*hold)


class LearnedLimits:
    """Middleware: what a handler has learned from its service is written with the settlement of its message."""

    def __init__(self, limits_of: Callable[[str], Iterable[KeyedLimit]]) -> None:
        self._limits_of = limits_of

    def process(self, attempt: Execution, proceed: Proceed) -> Any:
        try:
            return proceed(attempt)
        except RateLimited as error:
            # Of a time that cannot be, such as the text of an HTTP header, the attempt says so.
            with suppress(InvalidMessage):
                span = seconds(error.retry_after_seconds, "retry_after_seconds")
                if holds := self._holds(attempt.message, span):
                    error.first = Write(hold_all, holds)
            raise

    def _holds(self, received: Any, span: float) -> list[Hold]:
        """Return the keys of the message; that of the whole queue only if the message has no other."""
        message = Message(
            id="",
            headers=received.headers,
            type=received.type,
            group=getattr(received, "group_key", None),
            body=getattr(received, "raw_body", b""),
            content_type=getattr(received, "content_type", ""),
        )
        rates = [each for each in self._limits_of(received.queue) if isinstance(each, Throttle)]
        keys = [(each.name, each.key_of(message)) for each in rates]
        found = [Hold(received.queue, name, key, span) for name, key in keys if key is not None]
        return [hold for hold in found if hold.key] or found
