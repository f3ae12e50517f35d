"""Refreshes of pages: the answer has only the parts that have changed.

A page marks its parts: ``data-mq-part`` on an element with an id, and ``data-mq-parts`` on an element with an id
whose children are all parts, which come, go and change places. The attribute gets the version of the part.

live.js asks for the address of the page again, with the versions of what it shows. The view makes the page as
ever, so with the same permissions. Of its parts, those are sent whose version the browser does not have. The rows
of a list keep their places: what has come is counted only, and what has gone is named.
"""

from __future__ import annotations

import re
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from functools import partial, wraps
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.http import JsonResponse
from django.template.response import TemplateResponse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from django.contrib.admin.views.main import ChangeList
    from django.http import HttpRequest, HttpResponse

#: The headers of a refresh: the versions that the browser has, and the keys of the rows of its list.
HAVE, ROWS = "X-MQ-Have", "X-MQ-Rows"
#: The template that a refresh has instead of the frame of the site.
BARE: Final = "admin/django_mq/live.html"
#: The template of the list in a refresh.
BARE_LIST: Final = "admin/django_mq/live_list.html"
#: Seconds between two refreshes. A page that takes long to make is asked for less often: a viewer costs 20 ms of
#: the processor in five seconds at most, and keeps one hundredth of a process and a connection busy.
LEAST_WAIT, MOST_WAIT = 5, 60
PROCESSOR_SHARE, TIME_SHARE = 250, 100
#: The most rows of a list that are refreshed, and the most new ones that are counted.
MOST_ROWS, MOST_NEW = 200, 99

#: What the ids of the rows of a list begin with, and those of fields that cannot be edited.
ROW_ID: Final = "mq-row-"
FIELD_ID: Final = "mq-field-"

MARK = re.compile(r"<(\w+)(?=\s)[^<>]*\sdata-mq-part(s?)(?:=\"([^\"]*)\")?(?=[\s>/])[^<>]*>")
ID = re.compile(r'\sid="([^"]+)"')
#: What differs each time that a page is made, or changes while nothing happens.
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="[^"]*"')
AGE = re.compile(r'(<[^<>]*\sclass="[^"]*\bmq-ago\b[^<>]*>)([^<>]*)')
ROW = re.compile(r"<tr(?=[\s>])")
READONLY = re.compile(r'\bfield-(\w+)|<div class="readonly"(?=>)')
#: A key as text: a number, or an id in hexadecimal.
KEY = re.compile("[0-9]{1,18}|[0-9a-f-]{32,64}")


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a browser shows that asks for a refresh."""

    versions: frozenset[str]
    #: The keys of the rows of its list, as text.
    rows: tuple[str, ...]


class Begin(NamedTuple):
    """When an answer was begun: by the processor's clock of its thread, and by the clock on the wall."""

    processor: float
    time: float


class Part(NamedTuple):
    """An element of a page; the parts in it, if its children are parts."""

    id: str
    version: str
    html: str
    children: list[str] | None


def shown(request: HttpRequest) -> Refresh | None:
    """Return what the browser shows, None if it asks for the whole page."""
    have = request.headers.get(HAVE)
    if have is None or request.method != "GET":
        return None
    keys = request.headers.get(ROWS, "").split(",")[:MOST_ROWS]
    return Refresh(frozenset(have.split()), tuple(key for key in keys if KEY.fullmatch(key)))


def known(request: HttpRequest) -> frozenset[str]:
    """Return the versions that the browser has: of such a part, no more than the version has to be made."""
    have = shown(request)
    return have.versions if have else frozenset()


def version_of(*values: Any) -> str:
    """Return the version of a part that shows these values in the language of the request."""
    return _digest(f"{get_language()} {values!r}")


def watched(view: Callable[..., Any]) -> Callable[..., Any]:
    """Let the pages of a view of an admin be refreshed."""

    @wraps(view)
    def answer(admin: Any, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        begun = Begin(time.thread_time(), time.perf_counter())
        response: HttpResponse = view(admin, request, *args, **kwargs)
        if request.method == "GET" and response.status_code == 200 and isinstance(response, TemplateResponse):
            response.add_post_render_callback(partial(_finish, request, begun))
        return response

    return answer


def _finish(request: HttpRequest, begun: Begin, response: TemplateResponse) -> None:
    """Give the parts of a page their versions; or make the page the answer to a refresh."""
    have, changelist = shown(request), (response.context_data or {}).get("cl")
    page = _marked(response.content.decode(), changelist)
    if have is None:
        response.content = _stamped(page)
        return
    changes = _changes(page, have, changelist)
    # In place: the headers of the page stay.
    wait = pause(time.thread_time() - begun.processor, time.perf_counter() - begun.time)
    answer = JsonResponse(changes | {"wait": wait})
    response.content, response["Content-Type"] = answer.content, answer["Content-Type"]


def pause(processor_seconds: float, seconds: float) -> int:
    """Return how many seconds a browser waits after a refresh that has cost so much."""
    wanted = max(PROCESSOR_SHARE * processor_seconds, TIME_SHARE * seconds)
    return round(min(MOST_WAIT, max(LEAST_WAIT, wanted)))


def _marked(page: str, changelist: ChangeList | None) -> str:
    """Mark the rows of a list, and the fields of a row that cannot be edited: their templates are Django's."""
    if changelist is None:
        return _with_fields(page)
    begin = page.find("<tbody", page.find('<table id="result_list"'))
    end = page.find("</table>", begin)
    rows = list(changelist.result_list)
    body = page[begin:end]
    if begin < 0 or len(ROW.findall(body)) != len(rows):
        return page
    ids = iter(rows)
    marked = ROW.sub(lambda _match: f'<tr id="{ROW_ID}{next(ids).pk}" data-mq-part', body)
    return f"{page[:begin]}{marked}{page[end:]}"


def _with_fields(page: str) -> str:
    names: set[str] = set()
    name = ""

    def mark(found: re.Match[str]) -> str:
        nonlocal name
        if found[1]:
            name = found[1]
        elif name not in names:
            names.add(name)
            return f'{found[0]} id="{FIELD_ID}{name}" data-mq-part'
        return found[0]

    return READONLY.sub(mark, page) if 'class="readonly"' in page else page


def parts_of(page: str) -> Iterator[Part]:
    """Yield the marked elements of a page. One whose children are parts comes before them."""
    for found in MARK.finditer(page):
        name = ID.search(found[0])
        if name is None:
            continue
        html = page[found.start() : _end(page, found)]
        if found[2]:
            children = [part.id for part in parts_of(html[len(found[0]) :])]
            yield Part(name[1], _version(name[1], " ".join(children)), found[0], children)
        else:
            yield Part(name[1], found[3] or _version(name[1], html), html, None)


def _end(page: str, found: re.Match[str]) -> int:
    """Return where an element ends."""
    depth = 1
    for tag in re.compile(rf"<(/?){found[1]}(?=[\s>])[^<>]*>").finditer(page, found.end()):
        depth += -1 if tag[1] else 1
        if not depth:
            return tag.end()
    return len(page)


def _version(*texts: str) -> str:
    return _digest(AGE.sub(r"\1", TOKEN.sub("", "\n".join(texts))))


def _digest(text: str) -> str:
    return urlsafe_b64encode(blake2b(text.encode(), digest_size=6).digest()).decode()


def _with_version(part: Part) -> str:
    mark = "data-mq-part" if part.children is None else "data-mq-parts"
    return re.sub(rf'\s{mark}(="[^"]*")?(?=[\s>/])', f' {mark}="{part.version}"', part.html, count=1)


def _stamped(page: str) -> str:
    """Return a page whose parts have their versions."""
    parts = list(parts_of(page))
    versions = iter([part.version for part in parts])

    def stamp(found: re.Match[str]) -> str:
        if not ID.search(found[0]):
            return found[0]
        mark = f"data-mq-part{found[2]}"
        return re.sub(rf'\s{mark}(="[^"]*")?(?=[\s>/])', f' {mark}="{next(versions)}"', found[0], count=1)

    layout = f'id="mq-live" data-layout="{_layout(parts)}"'
    return MARK.sub(stamp, page).replace('id="mq-live"', layout, 1)


def _layout(parts: Sequence[Part]) -> str:
    """Return the version of which parts a page has, but for those that come and go."""
    moving = {child for part in parts for child in part.children or ()}
    kept = (part.id for part in parts if part.id not in moving)
    return _version(*(name for name in kept if not name.startswith((ROW_ID, FIELD_ID))))


def _changes(page: str, have: Refresh, changelist: ChangeList | None) -> dict[str, Any]:
    """Return what has changed: parts by their ids, orders by the ids of their holders, and the news of a list."""
    parts = list(parts_of(page))
    found: dict[str, Any] = {"layout": _layout(parts)}
    if changelist is not None:
        known = {f"{ROW_ID}{key}" for key in have.rows}
        new = getattr(changelist, "new_rows", None)
        if new is None:
            new = sum(part.id not in known for part in parts if part.id.startswith(ROW_ID))
        parts = [part for part in parts if part.id in known or not part.id.startswith(ROW_ID)]
        found |= {"gone": sorted(known - {part.id for part in parts}), "new": _news(new)}
    changed = [part for part in parts if part.version not in have.versions]
    found["parts"] = {part.id: _with_version(part) for part in changed if part.children is None}
    found["orders"] = {part.id: [part.version, part.children] for part in changed if part.children is not None}
    ages = {part.id: [age[2] for age in AGE.finditer(part.html)] for part in parts if part not in changed}
    found["ages"] = {name: texts for name, texts in ages.items() if texts}
    return {name: value for name, value in found.items() if value}


def _news(number: int) -> str:
    """Return how many rows are new, in words; blank if none."""
    if not number:
        return ""
    words = _("more than %(number)s new") if number > MOST_NEW else _("%(number)s new")
    return words % {"number": min(number, MOST_NEW)}


def new_among(ids: Sequence[Any], rows: Iterable[str]) -> int:
    """Return how many of these keys, in the order of a list, stand before the last row that a browser shows."""
    known = set(rows)
    places = [place for place, key in enumerate(ids) if str(key) in known]
    return sum(str(key) not in known for key in ids[: places[-1]]) if places else len(ids)
