"""Carry the id of the request, and add it to log lines.

Your code, or a package that makes such ids, sets it: ``request_id.set("6f2c")``.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from django_mq.middleware.header import HeaderMiddleware, holding

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

#: The id of the request, or of what else has begun the work of this context; blank for none.
request_id: ContextVar[str] = ContextVar("django_mq_request_id", default="")


class RequestIDMiddleware(HeaderMiddleware):
    """Give handlers the ``request_id`` of the code that has published the message."""

    header = "request_id"

    def value(self) -> str:
        return request_id.get()

    def entered(self, value: str) -> AbstractContextManager[None]:
        return holding(request_id, value)


class RequestIDFilter(logging.Filter):
    """Give each record of a log the attribute ``request_id``, ``-`` for none."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get() or _id_of(getattr(record, "mq_message", None)) or "-"
        return True


def _id_of(message: Any) -> str:
    """Return the id that a message carries; blank for none. Workers log the end of an attempt with its message."""
    try:
        value = message.headers.get(RequestIDMiddleware.header)
    except Exception:  # noqa: BLE001 - there is no message, or its headers cannot be read
        return ""
    return value if isinstance(value, str) else ""
