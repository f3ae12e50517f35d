"""A published message, which never changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

#: The priority of a message published without one; 0 is the lowest, 9 the highest.
DEFAULT_PRIORITY: Final = 4
_NO_HEADERS: Final[Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message: a body, its headers and its times.

    All times are seconds on the clock of the queue's ``now``; None means
    that the message has no such time. Nothing is checked here: publishing refuses
    wrong values, and a stored message must be loadable with any values.
    """

    id: str
    body: object = b""
    headers: Mapping[str, object] = field(default_factory=lambda: _NO_HEADERS)
    priority: int = DEFAULT_PRIORITY
    #: Bytes of the body as stored; byte credit is counted in it.
    size: int = 0
    queue: str = ""
    type: str = ""
    content_type: str = ""
    correlation_id: str | None = None
    reply_to: str | None = None
    #: The group that the publisher named; queues that read the group from a header ignore it.
    group: str | None = None
    #: Two messages with the same duplicate id are one message published twice.
    duplicate_id: str | None = None
    #: The connection of the publisher, for consumers with ``no_local``.
    connection: str | None = None
    published_at: float | None = None
    #: The message is not delivered before this time.
    deliver_at: float | None = None
    #: The message is expired from this time on.
    expires_at: float | None = None


def header_text(message: "Message", name: str) -> str | None:
    """Return a header as text: a string as it is, other scalars as in JSON, None for anything else.

    Null is no scalar here: it says that there is no value.
    """
    value = message.headers.get(name)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(value)
    return _digits(value) if isinstance(value, int) else None


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError:
        # More digits than Python converts to decimal. Without a text, the queue would stop here.
        return hex(number)
