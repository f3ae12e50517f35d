"""Carry a value from the code that publishes to the handler, in a header.

class CarryBrand(HeaderMiddleware):
    header = "brand"

    def value(self):
        return current_brand.get()

    @contextmanager
    def entered(self, value):
        token = current_brand.set(value)
        try:
            yield
        finally:
            current_brand.reset(token)
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django_mq.delivery.publisher import with_headers
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from contextvars import ContextVar

    from django_mq.seams.middleware import Execution, Proceed, Publication
    from django_mq.stores.records import NewMessage


class SyncHeaderMiddleware:
    """The base for values that belong to a thread, such as a setting of a database connection.

    Around a coroutine function, it holds the thread in which the function's queries run.
    """

    #: The name of the header. Selectors can match an identifier.
    header = ""

    def value(self) -> str | None:
        """Return the value of the code that publishes; blank or None if it has none: then there is no header."""
        raise NotImplementedError

    def entered(self, value: str) -> AbstractContextManager[Any]:
        """Return a context in which the handler has this value. Raise ``Reject`` for a value that cannot be."""
        raise NotImplementedError

    def publish(self, publication: Publication, proceed: Proceed) -> Any:
        """Add the header to each message that has not got it from its publisher."""
        value = self.value()
        if not value:
            return proceed()
        messages = [self._with_value(each, value) for each in publication.messages]
        return proceed(replace(publication, messages=messages))

    def _with_value(self, message: NewMessage, value: str) -> NewMessage:
        headers = headers_in(message.headers)
        return message if self.header in headers else with_headers(message, {**headers, self.header: value})

    def process(self, attempt: Execution, proceed: Proceed) -> Any:
        """Call the handler in the context of the value; a message without the header in none."""
        value = self.group(attempt.message)
        if value is None:
            return proceed()
        with self.entered(value):
            return proceed()

    def group(self, message: Any) -> str | None:
        """Return the value of a message, None if it has none. Messages of one value come to a handler together."""
        value = message.headers.get(self.header)
        return value if isinstance(value, str) and value else None


class HeaderMiddleware(SyncHeaderMiddleware):
    """The base for values of context variables, which also a coroutine function sees."""

    async def aprocess(self, attempt: Execution, proceed: Proceed) -> Any:
        """Await the handler in the context of the value."""
        value = self.group(attempt.message)
        if value is None:
            return await proceed()
        with self.entered(value):
            return await proceed()


@contextmanager
def holding(variable: ContextVar[str], value: str) -> Iterator[None]:
    """Give a context variable this value inside the context."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
