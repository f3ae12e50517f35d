"""Selected messages, or all that match, as a streamed file."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from asgiref.sync import sync_to_async
from django.contrib import admin
from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_mq.admin import report
from django_mq.admin.messages.selection import Selection
from django_mq.diagnosis.messages.exports import FORMS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.admin.messages.selection import Find
    from django_mq.admin.table import TableAdmin
    from django_mq.models import Message

#: The content types by extension.
TYPES = {"jsonl": "application/jsonl; charset=utf-8", "csv": "text/csv; charset=utf-8"}
#: Characters in a chunk of the response.
PIECE = 65_536


@admin.action(description=_("Download as JSON lines"), permissions=["view"])
def download_json(page: TableAdmin, request: HttpRequest, queryset: QuerySet[Message]) -> StreamingHttpResponse:
    return _download(request, queryset, "jsonl", page.look)


@admin.action(description=_("Download as CSV"), permissions=["view"])
def download_csv(page: TableAdmin, request: HttpRequest, queryset: QuerySet[Message]) -> StreamingHttpResponse:
    return _download(request, queryset, "csv", page.look)


def _download(request: HttpRequest, rows: QuerySet[Message], form: str, find: Find) -> StreamingHttpResponse:
    report.log_download(request, Selection(request, rows, find), form)
    pieces = _pieces(FORMS[form](rows))
    # With a synchronous iterator, Django would first read all of it into memory under ASGI.
    content = _asynchronous(pieces) if isinstance(request, ASGIRequest) else pieces
    response = StreamingHttpResponse(content, content_type=TYPES[form])
    name = f"messages-{timezone.localtime(datetime.now(UTC)):%Y%m%d-%H%M%S}.{form}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Accel-Buffering"] = "no"
    return response


def _pieces(lines: Iterator[str]) -> Iterator[str]:
    """Join lines: each chunk costs the server as much, however short it is."""
    piece: list[str] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= PIECE:
            yield "".join(piece)
            piece, size = [], 0
    yield "".join(piece)


async def _asynchronous(pieces: Iterator[str]) -> AsyncIterator[str]:
    """Yield the same, made in the thread that synchronous views run in."""
    following = sync_to_async(partial(next, pieces, None))
    while (piece := await following()) is not None:
        yield piece
