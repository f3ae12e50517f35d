"""The messages before and after one in the list that the user came from."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR
from django.http import QueryDict

from django_mq.admin.addresses import LIST, ROW, address_in_list
from django_mq.admin.paginator import COUNT_LIMIT, NUMBER, only_keys
from django_mq.models import Attempt, History, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest

    from django_mq.admin.table import TableAdmin

#: The lists whose rows are messages.
LISTS = {model._meta.model_name: model for model in (Message, History, Attempt)}
#: The parameter in which Django keeps the filters of a list.
FILTERS = "_changelist_filters"


class Neighbours(NamedTuple):
    """URLs; blank if there is none."""

    list: str
    newer: str = ""
    older: str = ""


def neighbours(page: TableAdmin, request: HttpRequest) -> Neighbours | None:
    """Return what is beside the row of the address; None if the user did not come from a list."""
    model, row = LISTS.get(request.GET.get(LIST, "")), request.GET.get(ROW, "")
    if model is None or not NUMBER.fullmatch(row) or not page.admin_site.is_registered(model):
        return None
    listing: Any = page.admin_site.get_model_admin(model)
    if not listing.has_view_permission(request):
        return None
    filters = request.GET.get(FILTERS, "")
    address = page.list_address(model)
    back = Neighbours(f"{address}?{filters}" if filters else address)
    with suppress(IncorrectLookupParameters, DisallowedModelAdminLookup):
        newer, older = _beside(int(row), listing, request, filters)
        beside = model._base_manager.using(listing.get_queryset(request).db).in_bulk([*newer, *older])  # noqa: SLF001 - all
        place = {FILTERS: filters} if filters else {}
        addresses = [
            address_in_list(page, beside[key[0]], **place) if key and key[0] in beside else ""
            for key in (newer, older)
        ]
        return back._replace(newer=addresses[0], older=addresses[1])
    return back


def _beside(row: int, listing: Any, request: HttpRequest, filters: str) -> tuple[list[int], list[int]]:
    """Return the key before and the key after a row, each in a list that is empty if there is none."""
    keys: Sequence[int] = ()
    for pages in (1, COUNT_LIMIT // listing.list_per_page):
        keys = _keys(listing, request, filters, pages)
        if row in keys[:-1] or len(keys) < listing.list_per_page:
            break
    if row in keys:
        place = keys.index(row)
        return list(keys[max(0, place - 1) : place]), list(keys[place + 1 : place + 2])
    # The row has left the list. It stood between these, unless the list has an order of its own.
    place = bisect_left(keys, -row, key=lambda key: -key)
    is_by_key = all(first > second for first, second in pairwise(keys))
    return (list(keys[max(0, place - 1) : place]), list(keys[place : place + 1])) if is_by_key else ([], [])


def _keys(listing: Any, request: HttpRequest, filters: str, pages: int) -> Sequence[int]:
    """Return the first keys of the list, as many as are on so many pages at least."""
    asked = only_keys(copy(request))
    given = QueryDict(filters, mutable=True)
    given[PAGE_VAR] = str(pages)
    asked.GET = given  # type: ignore[assignment] # it is not changed any more
    found: Sequence[int] = listing.get_changelist_instance(asked).paginator.ids
    return found
