"""The messages an operator has chosen, as they were when the act began."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib.admin import helpers

from django_mq.delivery.steering import in_delivery_order, rows_of
from django_mq.diagnosis.slices import as_listed

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import Q, QuerySet
    from django.http import HttpRequest

    from django_mq.diagnosis.slices import Look

    #: How a list finds what a request asks for.
    Find = Callable[..., Look]

#: Most messages changed while the page waits; with "select all", more become an operation in the background.
LIMIT = 1_000


class Selection:
    """Chosen messages, in delivery order, and how many were asked for."""

    def __init__(self, request: HttpRequest, queryset: QuerySet[Any], find: Find, among: Q | None = None) -> None:
        across = _is_across(request)
        #: Of all that match, those that the act is for; who was chosen one by one is told why it stays.
        self._find = partial(find, request, queryset, among=among if across else None)
        look = self._look = self._find(LIMIT + 1) if across else as_listed(queryset, LIMIT)
        found = rows_of(queryset.model.objects.using(queryset.db).filter(pk__in=look.ids[:LIMIT]))
        #: More than a page may wait for, or more than it has looked through: only with "select all".
        self.cut = len(look.ids) > LIMIT or not look.whole
        self.messages = in_delivery_order(found)
        self.asked = max(len(self.messages), self._named(request))

    def count(self, limit: int) -> tuple[int, bool]:
        """Return how many match, those beyond what a page may change too, and whether these are all."""
        # What patience has not found once, it would not find again.
        look = self._find(limit) if self._look.whole else self._look
        return len(look.ids), look.whole and len(look.ids) < limit

    @staticmethod
    def _named(request: HttpRequest) -> int:
        """Return how many rows the request names: some may have left the list since it was shown."""
        return 0 if _is_across(request) else len(set(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)))

    @property
    def states(self) -> Counter[int]:
        """How many messages were in each state; those that had left are not counted."""
        return Counter(chosen.state for chosen in self.messages)


def _is_across(request: HttpRequest) -> bool:
    """Return whether all that match the list's filters are meant, and not only those with a tick."""
    return request.POST.get("select_across") == "1"
