"""What the admin shows of the results and the progress of messages."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from django.utils.html import format_html
from django.utils.translation import gettext

from django_mq.delivery.codecs import JSON
from django_mq.diagnosis.language import LOCAL
from django_mq.diagnosis.messages import payload
from django_mq.replies.models import MessageProgress, MessageResult

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from django.http import HttpRequest


def show_result(_request: HttpRequest, message: Any) -> str:
    """Return how a message has ended, and what its handler has returned, masked as bodies are."""
    alias = message._state.db  # noqa: SLF001 - Django's public habit
    row = MessageResult.objects.using(alias).filter(pk=message.message_id).first()
    if row is None:
        return ""
    given = {"time": LOCAL.time(row.finished_at), "until": LOCAL.time(row.expires_at)}
    words = gettext("%(state)s, %(time)s, kept until %(until)s") % {**given, "state": gettext(row.status)}
    if row.value is None:
        return words
    return format_html(
        '{}<pre class="mq-payload" tabindex="0" role="region" aria-label="{}">{}</pre>',
        words,
        gettext("Result"),
        _text_of(row),
    )


def _text_of(row: MessageResult) -> str:
    """Return a result as a body is shown: indented, without what ``MASK`` hides, and not decrypted."""
    stored, encoding = (row.value or "").encode(), row.content_encoding
    body = base64.b64decode(stored) if encoding else stored
    return payload.body(body, JSON, encoding or "utf-8", queue=row.queue_name).text


def show_progress(_request: HttpRequest, message: Any) -> str:
    """Return what the handler of a message has last reported, with its time and its attempt."""
    alias = message._state.db  # noqa: SLF001 - Django's public habit
    row = MessageProgress.objects.using(alias).filter(pk=message.message_id).first()
    if row is None:
        return ""
    given = {"number": row.attempt, "time": LOCAL.time(row.reported_at)}
    words = gettext("reported by attempt %(number)s at %(time)s") % given
    return format_html('{}<div class="quiet">{}</div>', bar_of(row), words)


def bar_of(row: MessageProgress | None) -> str:
    """Return the progress as a bar with a number and the words of the handler; blank if there is none."""
    if row is None:
        return ""
    percent = LOCAL.percent(row.fraction)
    bar = format_html(
        '<span class="mq-progress"><progress max="1" value="{}" aria-label="{}"></progress> {}</span>',
        str(round(row.fraction, 4)),
        gettext("progress"),
        percent,
    )
    return format_html("{}, <bdi>{}</bdi>", bar, row.text) if row.text else bar


def progress_in(message_ids: Collection[UUID], *, using: str) -> dict[UUID, MessageProgress]:
    """Return what these messages have reported, for a list: one statement, and none for no ids."""
    rows = MessageProgress.objects.using(using).filter(pk__in=list(message_ids)) if message_ids else ()
    return {row.message_id: row for row in rows}
