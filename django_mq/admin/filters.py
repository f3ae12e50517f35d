"""Filters whose choices cost no walk over the messages, and read the alias of the queues."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_mq.admin.table import alias
from django_mq.diagnosis.messages import criteria, indexes, slices
from django_mq.models import Attempt, Message, Queue, WorkerSession
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django_stubs_ext import StrOrPromise

#: Newest messages whose types are offered as choices; any other type may be named in the address.
TYPES_SAMPLE = 1000
#: Most choices that a filter offers.
CHOICES = 50
#: The order in which messages are delivered, in the list's address.
DELIVERY = "delivery"


def _newest_attempts(field: str) -> Iterable[str]:
    return Attempt.objects.using(alias()).values_list(field, flat=True)[:TYPES_SAMPLE]


def _some_dead_letters() -> list[int]:
    """Return dead letters of the newest messages; where these have none, whichever are first in their indexes."""
    dead_letters = criteria.by_state(Message.objects.using(alias()), indexes.DEAD_LETTERS)
    look = slices.newest(dead_letters, TYPES_SAMPLE, patience=0)
    if look.ids or look.whole:
        return look.ids
    parts = indexes.parts({"state": indexes.DEAD_LETTERS}, alias()) or []
    return [key for part in parts for key in part[:TYPES_SAMPLE]][:TYPES_SAMPLE]


class Filter(admin.SimpleListFilter):
    """Narrows rows by one value of the address."""

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        """Offer what was found, and what the address asks for."""
        found = {*self.found(model_admin.model), *request.GET.getlist(str(self.parameter_name))}
        return [(value, value) for value in sorted(found - {""})[:CHOICES]]

    def found(self, model: type[Any]) -> Iterable[str]:
        """Return values to offer."""
        return ()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return self.narrowed(queryset, value) if value else queryset

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the rows that have the value."""
        return rows.filter(**{str(self.parameter_name): value})


class StateFilter(Filter):
    """One state, or dead letters wherever they are."""

    title, parameter_name = _("state"), "state"
    narrowed = staticmethod(criteria.by_state)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        states = [(str(value), label) for value, label in Message.Status.choices]
        return [*states, (indexes.DEAD_LETTERS, _("dead letters, also in dead-letter queues"))]


class QueueFilter(Filter):
    """One queue, by name."""

    title, parameter_name = _("queue"), "queue"
    narrowed = staticmethod(criteria.by_queue)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [(name, name) for name in Queue.objects.using(alias()).values_list("name", flat=True)]


class QueueNameFilter(QueueFilter):
    """The same for tables that remember the queue's name only."""

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(queue_name=value)


class PastTypeFilter(Filter):
    """One type of what is over; offered are those of the newest rows."""

    title, parameter_name = _("type"), "type"

    def found(self, model: type[Any]) -> Iterable[str]:
        newest: QuerySet[Any] = model.objects.using(alias()).order_by("-id")
        return newest.values_list("type", flat=True)[:TYPES_SAMPLE]


class TypeFilter(PastTypeFilter):
    """One type of messages; every type of the newest ones is offered."""

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        types = {*self.found(model_admin.model), *request.GET.getlist("type")}
        return [(name, name) for name in sorted(types) if name]


class PriorityFilter(Filter):
    """One priority, 9 first."""

    title, parameter_name = _("priority"), "priority"
    narrowed = staticmethod(criteria.by_priority)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [(str(priority), str(priority)) for priority in range(9, -1, -1)]


class AttemptsFilter(Filter):
    """How often a message has failed."""

    title, parameter_name = _("failed attempts"), "attempts"
    narrowed = staticmethod(criteria.by_attempts)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        none, *borders = criteria.ATTEMPTS
        return [(none, _("none")), *((border, _("%s or more") % border) for border in borders)]


class WorkerFilter(Filter):
    """What one worker session holds."""

    title, parameter_name = _("worker"), "worker"
    narrowed = staticmethod(criteria.by_worker)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        newest = WorkerSession.objects.using(alias()).order_by("-id").values_list("pk", "name")[:CHOICES]
        return [(str(pk), name) for pk, name in newest]


class FinishingWorkerFilter(WorkerFilter):
    """The living worker session that finished it."""

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(session_id=int(value[:18])) if value.isdecimal() else rows


class ErrorFilter(Filter):
    """Why messages are dead; offered are the reasons of the newest dead letters."""

    title, parameter_name = _("reason"), "reason"
    narrowed = staticmethod(criteria.by_reason)

    def found(self, model: type[Any]) -> Iterable[str]:
        newest = Message.objects.using(alias()).filter(pk__in=_some_dead_letters()).order_by()
        return newest.values_list("dead_reason", flat=True)


class ExceptionFilter(Filter):
    """What attempts have failed with; offered are the exceptions of the newest failed attempts."""

    title, parameter_name = _("exception"), "error"

    def found(self, model: type[Any]) -> Iterable[str]:
        return _newest_attempts("error")

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(error=value) if rows.model is Attempt else criteria.by_error(rows, value)


class FailingWorkerFilter(Filter):
    """The worker whose attempt failed; offered are those of the newest failed attempts."""

    title, parameter_name = _("worker"), "worker"

    def found(self, model: type[Any]) -> Iterable[str]:
        return _newest_attempts("worker")


class OrderFilter(Filter):
    """In which order: only the ready messages of one queue have an index in theirs."""

    title, parameter_name = _("order"), "order"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [(DELIVERY, _("as they are delivered"))] if is_in_one_line(request.GET) else []

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows  # the list's own ordering sees to it

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        newest, *others = super().choices(changelist)
        yield newest | {"display": _("newest first")}
        yield from others


def is_in_one_line(address: Mapping[str, str]) -> bool:
    """Return whether an address shows the ready messages of one queue."""
    return bool(address.get("queue")) and address.get("state") == str(Message.Status.READY.value)


class PublishedFilter(Filter):
    """When a message was published."""

    title, parameter_name = _("published"), "published"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [
            ("hour", _("in the last hour")),
            ("day", _("in the last 24 hours")),
            ("week", _("in the last 7 days")),
            ("older", _("before")),
        ]

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return criteria.by_age(rows, value, datetime.now(UTC))


class BeforeFilter(Filter):
    """What an earlier look has not come to; offered only where the address asks for it."""

    title, parameter_name = _("where to look"), slices.BEFORE
    narrowed = staticmethod(criteria.by_end)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        asked = [key for key in request.GET.getlist(slices.BEFORE) if key.isdecimal()]
        return [(key, _("older than number %s") % key) for key in asked]


class StaleFilter(Filter):
    """Workers that are alive, or past their deadline, by the database's clock."""

    title, parameter_name = _("status"), "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [("alive", _("alive")), ("stale", _("stale"))]

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        wanted = {"alive": Q(deadline__gte=UTCNow()), "stale": Q(deadline__lt=UTCNow())}.get(value)
        return rows.filter(wanted) if wanted else rows


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
        return criteria.by_span(queryset, self.field, since, until)

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
                "broken": bool(self.given.get(name)) and criteria.moment(self.given[name]) is None,
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
