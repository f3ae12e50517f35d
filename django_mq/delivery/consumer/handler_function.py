"""What ``@consumer`` makes of a function: it is called as before, and publishes to the queue of its handler."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from asgiref.sync import iscoroutinefunction, markcoroutinefunction

from django_mq.delivery.codecs import decode_body, encode_body
from django_mq.delivery.publisher import OutgoingMessage, apublish_many, publish_many
from django_mq.errors import CorruptMessage, InvalidMessage, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime, timedelta
    from uuid import UUID

    from django_mq.delivery.codecs import ReceivedMessage
    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.engine.decisions.unique import Unique

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
B = TypeVar("B")
B_contra = TypeVar("B_contra", contravariant=True)
#: The argument ``bulk`` of a handler. Without one, the type checker takes the first kind.
Bulk = TypeVar("Bulk", None, int)
Bulk_co = TypeVar("Bulk_co", None, int, covariant=True)


class PublishOptions(TypedDict, total=False):
    """The arguments of ``publish``, but for the queue, the body and exchanges."""

    priority: int
    deliver_at: datetime | None
    delay: timedelta | float | None
    expires_at: datetime | None
    ttl: timedelta | float | None
    headers: Mapping[str, Any] | None
    message_id: UUID | str | None
    correlation_id: str | None
    type: str
    group_key: str | None
    dedup_id: str | None
    unique: Unique | None
    keep_result_seconds: timedelta | float | None
    content_type: str | None
    using: str | None


class Takes(Protocol[B_contra]):
    """A function whose first argument is this. For the type checker, which so learns what may be published."""

    def __call__(self, body: B_contra, /, *args: Any, **kwargs: Any) -> Any: ...


class HandlerFunction(Generic[P, R]):
    """The function of a handler. Where its parameter is the message, it publishes any body."""

    def __init__(self, function: Callable[P, R], handler: Handler) -> None:
        update_wrapper(self, function)
        self.function = function
        self.handler = handler
        if iscoroutinefunction(function):
            markcoroutinefunction(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, which has nothing to do with a queue."""
        return self.function(*args, **kwargs)

    def __reduce__(self) -> str:
        """Pickle as a function is pickled: by its name."""
        return str(getattr(self.function, "__qualname__", repr(self)))

    def __repr__(self) -> str:
        return f"<handler {self.handler.name} of {self.handler.queue}>"

    @overload
    def publish(self: Takes[ReceivedMessage], body: Any, **options: Unpack[PublishOptions]) -> UUID: ...
    @overload
    def publish(self: Takes[B], body: B, **options: Unpack[PublishOptions]) -> UUID: ...
    def publish(self: Any, body: Any, **options: Any) -> UUID:
        """Publish a body for the handler and return the id of the message.

        The arguments are those of ``publish``. Raises what that raises, and InvalidMessage for a body that does
        not fit the annotation of the handler's parameter, or another ``type`` than that of the handler.
        """
        message_ids: list[UUID] = self.publish_many([body], **options)
        return message_ids[0]

    @overload
    def publish_many(
        self: Takes[ReceivedMessage], bodies: Iterable[Any], **options: Unpack[PublishOptions]
    ) -> list[UUID]: ...
    @overload
    def publish_many(self: Takes[B], bodies: Iterable[B], **options: Unpack[PublishOptions]) -> list[UUID]: ...
    def publish_many(self: Any, bodies: Iterable[Any], **options: Any) -> list[UUID]:
        """Publish all bodies, each with the same options, or none; return their ids in order."""
        using = options.pop("using", None)
        return publish_many(self._outgoing(bodies, options), using=using)

    @overload
    async def apublish(self: Takes[ReceivedMessage], body: Any, **options: Unpack[PublishOptions]) -> UUID: ...
    @overload
    async def apublish(self: Takes[B], body: B, **options: Unpack[PublishOptions]) -> UUID: ...
    async def apublish(self: Any, body: Any, **options: Any) -> UUID:
        """Publish from async code: like ``publish``, in a transaction of its own."""
        using = options.pop("using", None)
        [message_id] = await apublish_many(self._outgoing([body], options), using=using)
        return message_id

    def _outgoing(self, bodies: Iterable[Any], options: dict[str, Any]) -> list[OutgoingMessage]:
        own = self.handler.type
        options = {"type": own, **options}
        if own and options["type"] != own:
            raise InvalidMessage(
                f"{self.handler.name} takes messages of the type {own!r}, not {shown(options['type'])}; leave"
                " type out, or publish with the function publish()."
            )
        content_type = options.pop("content_type", None)
        messages = []
        for body in bodies:
            encoded, written_type = self._fitting(body, content_type)
            messages.append(
                OutgoingMessage(queue=self.handler.queue, body=encoded, content_type=written_type, **options)
            )
        return messages

    def _fitting(self, body: Any, content_type: str | None) -> tuple[Any, str | None]:
        """Return the body as it is written, with its content type. Raises InvalidMessage if it does not fit."""
        if self.handler.arguments is None:
            return body, content_type
        encoded = encode_body(body, content_type)
        try:
            self.handler.arguments.read(decode_body(*encoded))
        except CorruptMessage as error:
            raise InvalidMessage(str(error)) from None
        return encoded


class BulkFunction(Protocol[P, R_co]):
    """How the type checker sees the function of a handler of many: it takes a list, and publishes an item."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def publish(self: Takes[list[ReceivedMessage]], body: Any, **options: Unpack[PublishOptions]) -> UUID: ...
    @overload
    def publish(self: Takes[list[B]], body: B, **options: Unpack[PublishOptions]) -> UUID: ...
    @overload
    def publish_many(
        self: Takes[list[ReceivedMessage]], bodies: Iterable[Any], **options: Unpack[PublishOptions]
    ) -> list[UUID]: ...
    @overload
    def publish_many(
        self: Takes[list[B]], bodies: Iterable[B], **options: Unpack[PublishOptions]
    ) -> list[UUID]: ...
    @overload
    async def apublish(
        self: Takes[list[ReceivedMessage]], body: Any, **options: Unpack[PublishOptions]
    ) -> UUID: ...
    @overload
    async def apublish(self: Takes[list[B]], body: B, **options: Unpack[PublishOptions]) -> UUID: ...


class HandlerDecorator(Protocol[Bulk_co]):
    """What ``consumer`` returns, by the argument ``bulk``."""

    @overload
    def __call__(self: HandlerDecorator[None], function: Callable[P, R], /) -> HandlerFunction[P, R]: ...
    @overload
    def __call__(self: HandlerDecorator[int], function: Callable[P, R], /) -> BulkFunction[P, R]: ...
