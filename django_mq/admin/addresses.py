"""The address of a message, which it keeps for life, where in a list a link stands, and links of search keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from django_mq import conf
from django_mq.delivery.consumer.handlers import is_task
from django_mq.diagnosis.messages.life import id_in

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from django.contrib.admin import AdminSite

#: The parameters of an address that name the list it stands in, and the row of the link.
LIST, ROW = "list", "row"
#: The names of URLs: the page of a message by its id, the search, and the tasks that a first task has begun.
LIFE, SEARCH, CANVAS = "django_mq_message_life", "django_mq_message_search", "django_mq_message_canvas"
#: The parameter that names the first task, and the most characters of its id.
ROOT, LONGEST = "root", 255


class OnSite(Protocol):
    """What an address needs of a page."""

    admin_site: AdminSite


def message_address(page: OnSite, message_id: UUID | None, **place: Any) -> str:
    """Return the URL of a message, with its place in a list; blank if it has no id or the site no such page."""
    if message_id is None:
        return ""
    try:
        address = reverse(f"{page.admin_site.name}:{LIFE}", args=[message_id])
    except NoReverseMatch:
        return ""
    return f"{address}?{urlencode(place)}" if place else address


def chips(page: OnSite, message_ids: Collection[UUID]) -> dict[Any, list[tuple[str, str]]]:
    """Return the search keys of each of these messages that has some, each with the URL that searches for it."""
    found: dict[Any, list[tuple[str, str]]] = {}
    for each in conf.extensions().searches if message_ids else ():
        for message_id, keys in each.of(conf.load().DATABASE, message_ids).items():
            found.setdefault(message_id, []).extend(
                (f"{name}: {value}", search_address(page, name, value)) for name, value in keys
            )
    return found


def search_address(page: OnSite, name: str, value: str) -> str:
    """Return the URL that searches for the messages with this key."""
    return f"{reverse(f'{page.admin_site.name}:{SEARCH}')}?{urlencode({'q': f'{name}:{value}'})}"


def address_in_list(page: OnSite, row: Any, **place: Any) -> str:
    """Return the URL of the message that a row of a list is about; blank if its id is not known."""
    message_id = row.message_id or id_in(row.correlation_id)
    return message_address(page, message_id, **{LIST: row._meta.model_name, ROW: row.pk}, **place)


def canvas_address(page: OnSite, headers: Any) -> str:
    """Return the URL of the chain, the group or the chord of a Celery task, by its headers; blank for others."""
    if not isinstance(headers, dict) or not is_task(headers) or not headers.get("root_id"):
        return ""
    address = reverse(f"{page.admin_site.name}:{CANVAS}")
    return f"{address}?{urlencode({ROOT: str(headers['root_id'])[:LONGEST]})}"
