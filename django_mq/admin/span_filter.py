"""A filter by a span of time: two fields that may be left empty, in a form that keeps the other filters."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from django_mq.diagnosis import narrowing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django_stubs_ext import StrOrPromise


class SpanFilter(admin.ListFilter):
    """Rows whose time lies between two moments of the site's time zone, the first one included."""

    template = "admin/django_mq/span_filter.html"
    title: StrOrPromise = _("time published")
    #: The parameters of the address, and the field that is compared.
    names: ClassVar[tuple[str, str]] = ("since", "until")
    field = "published_at"

    def __init__(
        self, request: HttpRequest, params: dict[str, Any], model: type[Any], model_admin: ModelAdmin[Any]
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self.given = {name: _last(params.pop(name)) for name in self.names if name in params}
        self.used_parameters = dict(self.given)

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str | None]:
        return list(self.names)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        since, until = (self.given.get(name, "") for name in self.names)
        return narrowing.by_span(queryset, self.field, since, until)

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """Yield the one form: its fields, and the rest of the address as hidden ones."""
        kept = {
            name: _last(value) for name, value in changelist.params.items() if name not in {*self.names, "p", "e"}
        }
        labels = (_("From"), _("Before"))
        fields = [
            {
                "name": name,
                "id": f"mq-{name}",
                "label": label,
                "value": self.given.get(name, ""),
                "broken": bool(self.given.get(name)) and narrowing.moment(self.given[name]) is None,
            }
            for name, label in zip(self.names, labels, strict=True)
        ]
        yield {
            "fields": fields,
            "kept": kept,
            "selected": bool(self.given),
            "query_string": changelist.get_query_string(remove=[*self.names]),
        }


class DueFilter(SpanFilter):
    """The time a message is, or was, to be delivered at."""

    title = _("time due")
    names = ("due_since", "due_until")
    field = "deliver_at"


class FinishedFilter(SpanFilter):
    """When a message came to its end."""

    title = _("time finished")
    field = "finished_at"


class FailedFilter(SpanFilter):
    """When an attempt failed."""

    title = _("time failed")
    field = "failed_at"


def _last(value: Any) -> str:
    """Return a parameter's value, the last one if it was given several times."""
    return str(value[-1]) if isinstance(value, list) else str(value)
