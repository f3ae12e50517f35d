"""What the messages of a list are: a preview of their arguments or body, and how often they were tried."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from django.db import DatabaseError
from django.db.models import BinaryField, TextField
from django.db.models.functions import Cast, Left, Length, Substr
from django.utils.translation import gettext as _

from django_mq.admin.messages import failures
from django_mq.admin.retries import most_attempts
from django_mq.admin.table import alias
from django_mq.delivery.codecs import ENCRYPTED
from django_mq.delivery.consumer.handlers import is_task
from django_mq.delivery.operator.redrives import origin_of
from django_mq.diagnosis.language import LOCAL
from django_mq.diagnosis.messages import masking, payload
from django_mq.engine.decisions.dead_letters import ORIGIN_ATTEMPTS
from django_mq.models import Consumer, Message, Queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

#: The most bytes of a body, and characters of headers, that are read for a list.
BODY_HEAD, HEADERS_HEAD = 2_000, 20_000
#: The most characters of a preview.
WORDS = 80
#: Headers of a Celery task with its arguments.
ARGUMENTS = ("argsrepr", "kwargsrepr")
#: Arguments of a task that has none.
EMPTY = {"()", "[]", "{}", ""}


class Description(NamedTuple):
    """What a list says of a message beside its row."""

    preview: str = ""
    #: Failed attempts since the last redrive, here or in the queue where it died, and the most that this queue
    #: allows; 0 for no limit. Celery counts the attempts of its tasks: for these it is what failed in all.
    failed: int = 0
    most: int = 0
    #: The handlers of live workers for the queue.
    handlers: str = ""
    #: The search keys, each with the URL that searches for it.
    keys: Sequence[tuple[str, str]] = ()

    @property
    def attempts(self) -> str:
        """How many attempts failed: ``3 of 10``, ``3``."""
        words = {"failed": self.failed, "most": self.most}
        return _("%(failed)s of %(most)s") % words if self.most and self.failed else str(self.failed)


def describe(messages: Iterable[Message], keys: Mapping[Any, Sequence[tuple[str, str]]] | None = None) -> None:
    """Set ``description`` and ``failures`` of each message: a few statements for all of them.

    ``keys`` are the search keys of each message.
    """
    rows = list(messages)
    failures.summarise(rows)
    contents = _contents(rows)
    headers = {row.pk: _headers(contents[row.pk][0]) for row in rows if row.pk in contents}
    origins = {
        row.pk: origin_of(row.queue.name, headers.get(row.pk)) if row.is_dead_letter else row.queue.name
        for row in rows
    }
    limits = _limits({origins[row.pk] for row in rows if origins[row.pk] != row.queue.name})
    handlers = _handlers({row.queue.name for row in rows if not row.type})
    for row in rows:
        origin, known = origins[row.pk], headers.get(row.pk, {})
        is_sent = origin != row.queue.name
        failed = _number(known.get(ORIGIN_ATTEMPTS)) if is_sent else row.attempts
        most = limits.get(origin, 0) if is_sent else most_attempts(row.queue)
        if is_task(known):
            failed, most = max(failed, failures.of_row(row).attempts), 0
        row.description = Description(  # type: ignore[attr-defined] # for this page
            preview=_preview(row, known, *contents[row.pk][1:]) if row.pk in contents else "",
            failed=failed,
            most=most,
            handlers=handlers.get(row.queue.name, ""),
            keys=(keys or {}).get(row.message_id, ()),
        )


def of_row(message: Message) -> Description:
    """Return the description, which the page of a single message has not read yet."""
    if not hasattr(message, "description"):
        describe([message])
    found: Description = message.description  # type: ignore[attr-defined] # set above
    return found


def _contents(rows: Iterable[Message]) -> dict[int, tuple[str | None, Any, int]]:
    """Return the headers as text, the head of the body and its length; nothing if a row is not readable."""
    found = Message.objects.using(alias()).filter(pk__in=[row.pk for row in rows]).order_by()
    columns = (
        Left(Cast("headers", TextField()), HEADERS_HEAD),
        Substr("body", 1, BODY_HEAD, output_field=BinaryField()),
        Length("body"),
    )
    try:
        # To SQLite, a part of an empty body is null.
        return {pk: (headers, body or b"", size) for pk, headers, body, size in found.values_list("pk", *columns)}
    except (DatabaseError, ValueError):  # SQLite may have text that is no UTF-8
        return {}


def _headers(text: str | None) -> dict[str, Any]:
    try:
        headers = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return headers if isinstance(headers, dict) else {}


def _preview(row: Message, headers: dict[str, Any], head: Any, size: int) -> str:
    """Return the arguments of a task or the body in one line, masked."""
    if row.content_encoding == ENCRYPTED:
        return _("encrypted")
    if not masking.is_masking() and "argsrepr" in headers:
        return _line(" ".join(text for name in ARGUMENTS if (text := str(headers.get(name, ""))) not in EMPTY))
    if size > BODY_HEAD:
        # Only a whole body can be masked.
        return masking.HIDDEN if masking.is_masking() else _line(_text(head))
    shown = payload.body(head, row.content_type, row.content_encoding, queue=row.queue.name, indent=None)
    if shown.kind == "bytes" and not shown.masked:
        return LOCAL.size(size)
    return _line(shown.text)


def _text(head: Any) -> str:
    return head if isinstance(head, str) else bytes(head).decode("utf-8", "replace")


def _line(text: str) -> str:
    line = payload.sendable(" ".join(text.split()))
    return line if len(line) <= WORDS else f"{line[: WORDS - 1]}…"


def _number(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _limits(names: set[str]) -> dict[str, int]:
    """Return the most attempts of these queues."""
    queues = Queue.objects.using(alias()).filter(name__in=names).order_by() if names else ()
    return {queue.name: most_attempts(queue) for queue in queues}


def _handlers(names: set[str]) -> dict[str, str]:
    """Return the names of the handlers for these queues."""
    if not names:
        return {}
    consumers = (
        Consumer.objects.using(alias()).filter(queue_name__in=names).exclude(handler="").order_by("handler")
    )
    found: dict[str, list[str]] = {}
    for queue, handler in consumers.values_list("queue_name", "handler").distinct():
        found.setdefault(queue, []).append(handler)
    return {queue: ", ".join(handlers[:3]) for queue, handlers in found.items()}
