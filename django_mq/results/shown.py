"""What people see of a stored result: masked like a body, cut, and never unpickled."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db.models import CharField, OuterRef, Subquery
from django.db.models.functions import Coalesce, Substr
from django.utils.translation import gettext as _

from django_mq.delivery.codecs import ENCRYPTED, codec_of, key_of
from django_mq.diagnosis.messages import masking, payload
from django_mq.models import History, Message

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_mq.results.models import StoredResult

#: The most characters of a result that a list reads.
HEAD: Final = 500
#: The most characters of a result in a list.
LINE: Final = 120
#: The content encoding of what is no text.
BINARY: Final = "binary"
#: The columns that a list does not read.
LONG: Final = ("result", "traceback", "args", "kwargs", "children", "stamps")


def with_message(rows: QuerySet[StoredResult]) -> QuerySet[Any]:
    """Add what the message of each task says: its type and its queue, and when it was claimed; and the head."""
    past = History.objects.filter(message_id=OuterRef("message_id")).order_by()
    live = Message.objects.filter(message_id=OuterRef("message_id")).order_by()

    def known(of_past: str, of_live: str) -> Coalesce:
        found = Subquery(past.values(of_past)[:1]), Subquery(live.values(of_live)[:1])
        return Coalesce(*found, output_field=CharField())

    return rows.annotate(
        head=Substr("result", 1, HEAD + 1),
        message_type=known("type", "type"),
        message_queue=known("queue_name", "queue__name"),
        claimed_at=Subquery(past.values("claimed_at")[:1]),
    )


def task_of(row: Any) -> str:
    """Return the name of the task, as far as the result or its message know it."""
    return row.name or row.message_type or ""


def queue_of(row: Any) -> str:
    """Return the queue of the task, as far as the result or its message know it."""
    return row.queue or row.message_queue or ""


def held(row: Any) -> timedelta | None:
    """Return the time from the claim of the message to the end of the task; None if one of them is not known."""
    if row.claimed_at is None or row.done_at is None:
        return None
    span: timedelta = row.done_at - row.claimed_at
    return max(span, timedelta(0))


def value(row: Any, text: str, *, indent: int | None = 2) -> payload.Shown:
    """Return a text that the serialiser has written, masked."""
    stored, encoding = _bytes(text, row.content_encoding)
    return payload.body(stored, row.content_type, encoding, queue=queue_of(row), indent=indent)


def line(row: Any) -> str:
    """Return the beginning of a result, which has a head, for a list."""
    is_cut = len(row.head) > HEAD
    if is_cut and masking.is_masking() and _is_text(row.content_encoding):
        return f"{masking.HIDDEN}…"  # the rule would see half of the value
    shown = value(row, row.head[: HEAD // 4 * 4], indent=None)
    if shown.kind == "bytes":
        shown = replace(shown, text=_("binary"))
    words = _error(shown.text) if shown.kind == "json" and not is_cut else shown.text
    return f"{words[:LINE]}…" if is_cut or len(words) > LINE else words


def _error(text: str) -> str:
    """Return an exception, as Celery has written it, as Python prints it; other values as they are."""
    found = json.loads(text)
    if not isinstance(found, dict) or not {"exc_type", "exc_message"} <= found.keys():
        return text
    arguments = found["exc_message"]
    words = ", ".join(map(str, arguments)) if isinstance(arguments, list) else str(arguments)
    return f"{found['exc_type']}: {words}" if words else str(found["exc_type"])


def _is_text(encoding: str) -> bool:
    """Whether texts of this content encoding are stored as they are; others are in base64."""
    return encoding != BINARY and codec_of(encoding) is not None


def _bytes(text: str, encoding: str) -> tuple[bytes, str]:
    """Return a stored text as the bytes that the serialiser has written, and their encoding."""
    if _is_text(encoding):
        return text.encode("utf-8", "surrogateescape"), "utf-8"
    try:
        stored = base64.b64decode(text)
    except ValueError:
        return text.encode("utf-8", "surrogateescape"), encoding
    return stored, ENCRYPTED if key_of(stored) is not None else encoding
