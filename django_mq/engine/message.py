"""What was published: it never changes, however often it is delivered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

#: The priority of a message whose publisher named none; 0 is the lowest, 9 the highest.
DEFAULT_PRIORITY: Final = 4
_NO_HEADERS: Final[Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message: a body, its headers and its times.

    All times are seconds on the clock whose ``now`` is handed to the queue; None means
    that the message has no such time. Nothing is checked here: publishing refuses what
    is wrong, and a stored message must be loadable whatever it holds.
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
    #: The group that the publisher named; queues that read a header for it do not look here.
    group: str | None = None
    #: Two messages with one of these are the same, however often it was published.
    duplicate_id: str | None = None
    #: Of the publisher, for consumers that do not want what they have published themselves.
    connection: str | None = None
    published_at: float | None = None
    #: Not before this time.
    deliver_at: float | None = None
    #: From this time on the message is worthless.
    expires_at: float | None = None


def header_text(message: "Message", name: str) -> str | None:
    """The header as JSON would spell it, a string without its quotes; None unless it is a scalar.

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
    except (
        ValueError
    ):  # more digits than Python writes; some text must stand for it, or its queue would stop there
        return hex(number)
