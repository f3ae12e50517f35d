"""Pages over tables with millions of rows.

A page looks once for the ids of the rows that match, up to a limit, and then fetches the rows of the page by their
ids. To count the rows and then to list them would walk the table twice where a filter has no index.

An address may have only the parameters of the filters of the list. Django would accept any lookup of any column
(``headers__password__startswith``, ``body__regex``): a user could guess masked values letter by letter, or keep
the database busy, and an operation, which knows only the filters, would change rows that the list does not show.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib import messages
from django.contrib.admin import ListFilter, helpers
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.paginator import Page, Paginator
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from django_mq.admin import live
from django_mq.admin.addresses import address_in_list
from django_mq.diagnosis.messages.slices import BEFORE, as_listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest, QueryDict

    from django_mq.diagnosis.messages.slices import FoundKeys

#: The most rows that page numbers reach.
COUNT_LIMIT = 10_000
#: Rows counted for the first pages, and steps in which later pages count more.
COUNT_STEP = 1_000
#: PostgreSQL refuses a statement with this character.
NUL = "\x00"
#: An id, with the most digits that every database takes for one.
NUMBER = re.compile("[0-9]{1,18}")
#: An id that is a UUID, as lists write it.
UUID_FORM = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class BoundedPaginator(Paginator):  # type: ignore[type-arg] # not subscriptable at run time
    """Finds ids up to a limit, which is always beyond the page that is asked for."""

    #: The number of the page in the URL.
    wanted: str | int = 1
    #: Returns the ids of the rows that match, up to a limit.
    find: Callable[[QuerySet[Any], int], FoundKeys] = staticmethod(as_listed)
    #: All rows of the list, without filters; the rows that match, if it is not given.
    every: QuerySet[Any] | None = None

    @property
    def _rows(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment] # the admin gives nothing else
        return rows

    @cached_property
    def look(self) -> FoundKeys:
        return self.find(self._rows, self.limit)

    @property
    def ids(self) -> list[Any]:
        return self.look.ids

    @cached_property
    def limit(self) -> int:
        try:
            number = max(1, int(self.wanted))
        except ValueError:
            number = 1
        return min(COUNT_LIMIT, (self.per_page * number // COUNT_STEP + 1) * COUNT_STEP)

    @cached_property
    def count(self) -> int:
        return len(self.ids)

    def page(self, number: int | str) -> Page[Any]:
        valid = self.validate_number(number)
        first = (valid - 1) * self.per_page
        # By ids only: the filters could walk the table again. A row that has gone meanwhile is missing.
        rows = self._rows if self.every is None else self.every.order_by(*self._rows.query.order_by)
        return Page(rows.filter(pk__in=self.ids[first : first + self.per_page]), valid, self)

    @property
    def cut(self) -> bool:
        """Whether there may be rows beyond COUNT_LIMIT."""
        return self.count >= COUNT_LIMIT

    @property
    def goes_on(self) -> bool:
        """Whether there may be rows that later pages count."""
        return not self.cut and self.count >= self.limit


#: The attribute of a request that asks for the keys of a list only.
ONLY_KEYS = "_mq_only_keys"


def only_keys(request: HttpRequest) -> HttpRequest:
    """Let the list find its keys, and read no row."""
    setattr(request, ONLY_KEYS, True)
    return request


def posts_action(request: HttpRequest) -> bool:
    """Whether the request posts an action: Django makes the list for it, and does not show it."""
    return request.method == "POST"


class BoundedChangeList(ChangeList):
    """A list that accepts only the parameters of its filters."""

    #: How many rows a browser does not show that asks for a refresh; None if they are not counted.
    new_rows: int | None = None

    @property
    def filters_above(self) -> bool:
        """Whether the filters are a bar above the list. django-unfold has a panel of its own for them."""
        return not apps.is_installed("unfold")

    def get_filters(self, request: HttpRequest) -> Any:
        """Return what filters the list. Raises IncorrectLookupParameters for other parameters."""
        if any(NUL in text for name, values in request.GET.lists() for text in (name, *values)):
            _refuse(request, "NUL")
        found = super().get_filters(request)
        if unknown := sorted(found[2]):
            _refuse(request, ", ".join(unknown))
        if self.filters_above:
            for spec in found[0]:
                if spec.template == ListFilter.template:
                    spec.template = "admin/django_mq/filter.html"
        return found

    def get_results(self, request: HttpRequest) -> None:
        if hasattr(request, ONLY_KEYS):
            self.paginator = self.model_admin.get_paginator(request, self.queryset, self.list_per_page)
            self.result_list = []
            return
        if (seen := live.shown(request)) and seen.rows:
            self._count_new(request, seen.rows)
        super().get_results(request)
        # For a single page, Django would run the filters once more.
        if isinstance(self.paginator, BoundedPaginator) and not self.multi_page:
            self.result_list = self.paginator.page(1).object_list

    def _count_new(self, request: HttpRequest, rows: Sequence[str]) -> None:
        """Count the rows that stand above those which a browser shows; these are listed, wherever they are."""
        if issubclass(self.model_admin.paginator, BoundedPaginator):
            page: Any = self.model_admin
            first = page.look(request, self.queryset, len(rows) + live.MOST_NEW + 1)
            self.new_rows = 0 if self.page_num > 1 else live.new_among(first.ids, rows)
            self.page_num = 1

    @property
    def further(self) -> str:
        """The URL of the page with the rows that were not read, or nothing."""
        look = self.paginator.look if isinstance(self.paginator, BoundedPaginator) else None
        if look is None or look.down_to is None:
            return ""
        return self.get_query_string({BEFORE: look.down_to}, remove=[PAGE_VAR])


class MessageRows(BoundedChangeList):
    """A list whose rows lead to the pages of messages by their ids."""

    def url_for_result(self, result: Any) -> str:
        return address_in_list(self.model_admin, result) or super().url_for_result(result)


def _refuse(request: HttpRequest, what: str) -> None:
    """Tell the user, and raise IncorrectLookupParameters: Django then shows the list without filters."""
    if hasattr(request, ONLY_KEYS):
        raise IncorrectLookupParameters(what)
    sentence = _("This list cannot be filtered by %(what)s; it is shown unfiltered.")
    messages.warning(request, sentence % {"what": what[:100]})
    raise IncorrectLookupParameters(what)


def with_ids_only(posted: QueryDict, form: re.Pattern[str]) -> QueryDict:
    """Return what was posted, of the chosen rows only texts that can be ids: Django asks the database for all."""
    kept = posted.copy()
    named = posted.getlist(helpers.ACTION_CHECKBOX_NAME)
    ids = [text for text in named if form.fullmatch(text)]
    kept.setlist(helpers.ACTION_CHECKBOX_NAME, ids)
    kept._mutable = False  # noqa: SLF001 - QueryDict has no other way
    return kept
