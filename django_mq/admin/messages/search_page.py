"""The search of live messages, the history and failed attempts: one at a time for each user, in bounded time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.addresses import chips, message_address
from django_mq.admin.messages.life import viewable
from django_mq.admin.paginator import NUL, NUMBER
from django_mq.admin.table import alias
from django_mq.diagnosis.language import LOCAL, time_text
from django_mq.diagnosis.messages.life import id_in
from django_mq.diagnosis.messages.search import KEYS, SECONDS, SHORTEST, TABLES, Hit, SearchResult, search
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin

#: The most characters of the words.
LONGEST = 500
#: The status of the answer to a user whose last search is still running.
BUSY = 429


#: What has the words.
WHERE = {
    "id": gettext_lazy("id"),
    "key": gettext_lazy("search key"),
    "type": gettext_lazy("type"),
    "header": gettext_lazy("header"),
    "body": gettext_lazy("body"),
    "error": gettext_lazy("error"),
}


class FoundLine(NamedTuple):
    """A message that was found, as the page shows it."""

    address: str
    id: str
    state: str
    bad: bool
    queue: str
    type: str
    where: str
    time: datetime
    ago: str
    #: The search keys of the message, each with the URL that searches for it.
    keys: list[tuple[str, str]]


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show what has the words of the URL. The id of a message leads to its page."""
    seen = {
        name: rows
        for name, (model, _time) in TABLES.items()
        if (rows := viewable(admin, request, model)) is not None
    }
    if not seen:
        raise PermissionDenied
    words = request.GET.get("q", "").strip()[:LONGEST]
    if not words or NUL in words:
        return _answer(admin, request, words)
    with shared_store(alias()).database.looking(f"search {request.user.pk}", SECONDS) as is_alone:
        found = search(words, seen, below=_below(request)) if is_alone else None
    if found is not None and found.hits and (message_id := id_in(words)) is not None:
        return HttpResponseRedirect(message_address(admin, message_id))
    return _answer(admin, request, words, found, status=200 if found is not None else BUSY)


def _answer(
    admin: TableAdmin, request: HttpRequest, words: str, found: SearchResult | None = None, *, status: int = 200
) -> HttpResponse:
    answer = admin.page(
        request,
        "message/search",
        _("Search"),
        words=words,
        is_busy=status == BUSY,
        is_short=0 < len(words) < SHORTEST,
        shortest=SHORTEST,
        lines=[] if found is None else _lines(admin, found.hits),
        found=found,
        took="" if found is None else LOCAL.precise(found.seconds),
        budget=LOCAL.precise(SECONDS),
        left=[] if found is None else list(_left(found)),
        further="" if found is None else _further(words, found.left),
    )
    answer.status_code = status
    return answer


def _below(request: HttpRequest) -> dict[str, int] | None:
    """Return where the last search has ended, by table; None if this is a new one."""
    given = {name: request.GET.get(name, "") for name in (*TABLES, KEYS)}
    below = {name: int(key) for name, key in given.items() if NUMBER.fullmatch(key)}
    return below or None


def _further(words: str, left: Mapping[str, int]) -> str:
    return f"?{urlencode([('q', words), *left.items()])}" if left else ""


def _left(found: SearchResult) -> Iterator[str]:
    """Yield how far back each table was read that was not read whole."""
    words = {
        "live": _("messages that wait, run or are dead, back to %(time)s"),
        "past": _("finished messages, back to %(time)s"),
        "failed": _("failed attempts, back to %(time)s"),
    }
    for name, time in found.back_to.items():
        yield words[name] % {"time": time_text(time) if time else "-"}


def _lines(admin: TableAdmin, hits: Sequence[Hit]) -> list[FoundLine]:
    keys = chips(admin, [hit.message_id for hit in hits if hit.message_id])
    return [_line(admin, hit, keys.get(hit.message_id, [])) for hit in hits]


def _line(admin: TableAdmin, hit: Hit, keys: Sequence[tuple[str, str]]) -> FoundLine:
    row, is_live = hit.row, hit.table == "live"
    if is_live:
        state = columns.state_name(row.state)
    else:
        state = str(row.get_outcome_display()) if hit.table == "past" else row.error
    return FoundLine(
        address=message_address(admin, hit.message_id) or admin.page_address(type(row), row.pk),
        id=columns.short_id(hit.message_id) if hit.message_id else row.correlation_id,
        state=state,
        bad=hit.table == "failed" or (is_live and row.is_dead_letter),
        queue=row.queue.name if is_live else row.queue_name,
        type=row.type,
        where=str(WHERE[hit.where]),
        time=hit.time,
        ago=columns.ago(hit.time),
        keys=list(keys),
    )
