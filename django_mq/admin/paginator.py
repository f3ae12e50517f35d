"""Pages over tables of millions: looked through once, up to a bound, and never to the end for what is seen.

One look finds the ids of what matches; the rows of the page are then fetched by their ids, and by nothing else. To
count and then to list would walk the table twice where a filter has no index, and an order by id would fetch and
sort whole rows where it has one.

An address may say what one of the list's filters takes, and nothing else. Django would take any lookup of any
column, ``headers__password__startswith`` or ``body__regex``: whoever sees a list could guess what is hidden of its
rows, letter by letter, or keep the database busy. And an operation in the background, which knows the filters
alone, would go on to rows that the list did not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin import helpers
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.paginator import Page, Paginator
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from django_mq.diagnosis.messages.slices import BEFORE, as_listed

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet
    from django.http import HttpRequest, QueryDict

    from django_mq.diagnosis.messages.slices import Look

#: Rows reachable by page number. Beyond it the page says "more" and filters help.
COUNT_LIMIT = 10_000
#: Rows counted for the first pages, and how many more as one goes on: whoever looks at a hundred rows shall not
#: wait until ten thousand are found.
COUNT_STEP = 1_000
#: No text of a database has it, and PostgreSQL refuses a statement that names it.
NUL = "\x00"
#: Digits of an id that every database takes for a number.
ID_DIGITS = 18


class BoundedPaginator(Paginator):  # type: ignore[type-arg] # not subscriptable at run time
    """Knows the ids of the first rows, some way beyond the page that is asked for and COUNT_LIMIT at most."""

    #: The page that is asked for, as the address says it; nonsense is answered by the count of the first pages.
    wanted: str | int = 1
    #: How the ids are found: the rows that match, and how many at most.
    find: Callable[[QuerySet[Any], int], Look] = staticmethod(as_listed)
    #: The rows of the table as the page shows them, narrowed by nothing; those that match, if it is not given.
    every: QuerySet[Any] | None = None

    @property
    def _rows(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment] # the admin gives nothing else
        return rows

    @cached_property
    def look(self) -> Look:
        return self.find(self._rows, self.limit)

    @property
    def ids(self) -> list[Any]:
        return self.look.ids

    @cached_property
    def limit(self) -> int:
        """Return where counting stops: always beyond the page that is asked for, up to COUNT_LIMIT."""
        shown = self.per_page * _number(self.wanted)
        return min(COUNT_LIMIT, (shown // COUNT_STEP + 1) * COUNT_STEP)

    @cached_property
    def count(self) -> int:
        return len(self.ids)

    def page(self, number: int | str) -> Page[Any]:
        """Return the rows of a page; one that has gone since they were counted is missing."""
        valid = self.validate_number(number)
        first = (valid - 1) * self.per_page
        # Of what matched a moment ago: to ask for that again could walk the table again.
        rows = self._rows if self.every is None else self.every.order_by(*self._rows.query.order_by)
        return Page(rows.filter(pk__in=self.ids[first : first + self.per_page]), valid, self)

    @property
    def cut(self) -> bool:
        """Whether there may be rows beyond those that pages reach."""
        return self.count >= COUNT_LIMIT

    @property
    def goes_on(self) -> bool:
        """Whether there may be rows beyond those counted, which later pages count."""
        return not self.cut and self.count >= self.limit


def _number(text: str | int) -> int:
    try:
        return max(1, int(text))
    except ValueError:
        return 1


class BoundedChangeList(ChangeList):
    """Filters by its filters alone, and lists a single page as any other: Django would look once more for it."""

    def get_filters(self, request: HttpRequest) -> Any:
        """Return what filters the list. Raises IncorrectLookupParameters for whatever none of them takes."""
        if any(NUL in text for name, values in request.GET.lists() for text in (name, *values)):
            _refuse(request, "NUL")
        found = super().get_filters(request)
        if unknown := sorted(found[2]):
            _refuse(request, ", ".join(unknown))
        return found

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if isinstance(self.paginator, BoundedPaginator) and not self.multi_page:
            self.result_list = self.paginator.page(1).object_list

    @property
    def further(self) -> str:
        """Return the address of the rows that were not looked at, where patience has ended before the table."""
        look = self.paginator.look if isinstance(self.paginator, BoundedPaginator) else None
        if look is None or look.down_to is None:
            return ""
        return self.get_query_string({BEFORE: look.down_to}, remove=[PAGE_VAR])


def _refuse(request: HttpRequest, what: str) -> None:
    """Raise IncorrectLookupParameters, by which the list is shown unfiltered, and tell the reader."""
    sentence = _("This list cannot be filtered by %(what)s; it is shown unfiltered.")
    messages.warning(request, sentence % {"what": what[:100]})
    raise IncorrectLookupParameters(what)


def with_ids_only(posted: QueryDict) -> QueryDict:
    """Return what was posted, and of the rows it names those whose names can be ids: Django would ask for all."""
    kept = posted.copy()
    named = posted.getlist(helpers.ACTION_CHECKBOX_NAME)
    kept.setlist(helpers.ACTION_CHECKBOX_NAME, [text for text in named if is_id(text)])
    kept._mutable = False  # noqa: SLF001 - QueryDict has no other way
    return kept


def is_id(text: str) -> bool:
    """Return whether a text can name a row."""
    return text.isascii() and text.isdecimal() and len(text) <= ID_DIGITS
