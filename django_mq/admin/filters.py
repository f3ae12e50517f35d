"""The filters of the lists. No choice costs a walk over the messages; all read the alias of the queues."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.db.models import Q
from django.utils.text import Truncator
from django.utils.timezone import localtime
from django.utils.translation import gettext_lazy as _

from django_mq.admin.paginator import posts_action
from django_mq.admin.table import alias
from django_mq.diagnosis.messages import criteria, indexes, slices
from django_mq.models import Attempt, FailureGroup, GroupedFailure, Message, Queue, WorkerSession
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django_stubs_ext import StrOrPromise

#: How many of the newest rows give the values to choose from. The URL may have any other value.
SAMPLE = 500
#: The most choices of a filter.
CHOICES = 50
#: The most characters of a choice that is a text.
NAME = 60
#: The value of the order filter for delivery order.
DELIVERY = "delivery"


class Filter(admin.SimpleListFilter):
    """A filter by a value in the URL."""

    #: The choices, if they are always the same.
    offered: ClassVar[list[tuple[str, StrOrPromise]]] = []
    #: The most choices, None for all.
    most: ClassVar[int | None] = CHOICES

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        """Return the values of some rows and the value in the URL."""
        if self.offered:
            return self.offered
        found = () if posts_action(request) else self.found(model_admin.model)
        values = {*found, *request.GET.getlist(str(self.parameter_name))}
        return [(value, value) for value in sorted(values - {""})[: self.most]]

    def found(self, model: type[Any]) -> Iterable[str]:
        return ()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return self.narrowed(queryset, value) if value else queryset

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(**{str(self.parameter_name): value})


class StateFilter(Filter):
    title, parameter_name = _("state"), "state"
    narrowed = staticmethod(criteria.by_state)
    offered = [
        *((str(state.value), state.label) for state in Message.Status if state != Message.Status.DEAD),
        (indexes.RETRYING, _("retrying")),
        (str(Message.Status.DEAD.value), _("dead letters in their own queues")),
        (indexes.DEAD_LETTERS, _("dead letters, also in dead-letter queues")),
    ]


class QueueFilter(Filter):
    """The queue. Without the permission to view queues, those of some rows are offered."""

    title, parameter_name = _("queue"), "queue"
    narrowed = staticmethod(criteria.by_queue)
    #: The field of a row with the name of its queue.
    field = "queue__name"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        if not request.user.has_perm("django_mq.view_queue"):
            return super().lookups(request, model_admin)
        return [(name, name) for name in Queue.objects.using(alias()).values_list("name", flat=True)]

    def found(self, model: type[Any]) -> Iterable[str]:
        newest: QuerySet[Any] = model.objects.using(alias()).order_by("-pk")
        return newest.values_list(self.field, flat=True)[:SAMPLE]


class QueueNameFilter(QueueFilter):
    """The queue, in tables that have only its name."""

    field = "queue_name"

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(queue_name=value)


class PastTypeFilter(Filter):
    """The type, in tables of the past."""

    title, parameter_name = _("type"), "type"

    def found(self, model: type[Any]) -> Iterable[str]:
        newest: QuerySet[Any] = model.objects.using(alias()).order_by("-id")
        return newest.values_list("type", flat=True)[:SAMPLE]


class TypeFilter(PastTypeFilter):
    """The type of messages; every type of the sample is offered."""

    most = None


class PriorityFilter(Filter):
    title, parameter_name = _("priority"), "priority"
    narrowed = staticmethod(criteria.by_priority)
    offered = [(str(priority), str(priority)) for priority in range(9, -1, -1)]


class AttemptsFilter(Filter):
    title, parameter_name = _("failed attempts"), "attempts"
    narrowed = staticmethod(criteria.by_attempts)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        none, *borders = criteria.ATTEMPTS
        return [(none, _("none")), *((border, _("%s or more") % border) for border in borders)]


class WorkerFilter(Filter):
    """The worker session that holds a message."""

    title, parameter_name = _("worker"), "worker"
    narrowed = staticmethod(criteria.by_worker)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        newest = WorkerSession.objects.using(alias()).order_by("-id").values_list("pk", "name")[:CHOICES]
        return [(str(pk), name) for pk, name in newest]


class FinishingWorkerFilter(WorkerFilter):
    """The live worker session that finished a message."""

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(session_id=int(value[:18])) if value.isdecimal() else rows


class FailingWorkerFilter(Filter):
    """The worker whose attempt failed."""

    title, parameter_name = _("worker"), "worker"

    def found(self, model: type[Any]) -> Iterable[str]:
        return Attempt.objects.using(alias()).values_list("worker", flat=True)[:SAMPLE]


class ErrorFilter(Filter):
    """The reason of dead letters."""

    title, parameter_name = _("reason"), "reason"
    narrowed = staticmethod(criteria.by_reason)

    def found(self, model: type[Any]) -> Iterable[str]:
        newest = Message.objects.using(alias()).filter(pk__in=_some_dead_letters()).order_by()
        return newest.values_list("dead_reason", flat=True)


def _some_dead_letters() -> list[int]:
    """Return the dead letters among the newest messages, or else the first ones in their indexes."""
    dead_letters = criteria.by_state(Message.objects.using(alias()), indexes.DEAD_LETTERS)
    look = slices.newest(dead_letters, SAMPLE, patience=0)
    if look.ids or look.is_complete:
        return look.ids
    parts = indexes.parts({"state": indexes.DEAD_LETTERS}, alias()) or []
    return [key for part in parts for key in part[:SAMPLE]][:SAMPLE]


class ExceptionFilter(Filter):
    """The exception of failed attempts."""

    title, parameter_name = _("exception"), "error"

    def found(self, model: type[Any]) -> Iterable[str]:
        return Attempt.objects.using(alias()).values_list("error", flat=True)[:SAMPLE]

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(error=value) if rows.model is Attempt else criteria.by_error(rows, value)


class FailureGroupFilter(Filter):
    """The group of the last failure; shown only if the URL has it."""

    title, parameter_name = _("failure group"), "failure"
    narrowed = staticmethod(criteria.by_failure)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        asked = [key[:18] for key in request.GET.getlist("failure") if key.isdecimal()]
        groups = FailureGroup.objects.using(alias()).filter(pk__in=asked) if asked else ()
        # Its text is that of exceptions.
        may_view = request.user.has_perm("django_mq.view_failuregroup")
        return [(str(one.pk), Truncator(str(one)).chars(NAME) if may_view else f"#{one.pk}") for one in groups]


class AttemptGroupFilter(FailureGroupFilter):
    """The group of a failed attempt."""

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value.isdecimal():
            return rows
        grouped = GroupedFailure.objects.using(alias()).filter(group_id=int(value[:18]))
        return rows.filter(pk__in=grouped.values("attempt_id"))


class OrderFilter(Filter):
    """The order of the list. Only the ready messages of one queue have an index in delivery order."""

    title, parameter_name = _("order"), "order"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [(DELIVERY, _("as they are delivered"))] if is_in_one_line(request.GET) else []

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows  # get_ordering of the page orders them

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        newest, *others = super().choices(changelist)
        yield newest | {"display": _("newest first")}
        yield from others


def is_in_one_line(address: Mapping[str, str]) -> bool:
    """Return whether a URL shows the ready messages of one queue."""
    return bool(address.get("queue")) and address.get("state") == str(Message.Status.READY.value)


class PublishedFilter(Filter):
    title, parameter_name = _("published"), "published"
    offered = [
        ("hour", _("in the last hour")),
        ("day", _("in the last 24 hours")),
        ("week", _("in the last 7 days")),
        ("older", _("before")),
    ]

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return criteria.by_age(rows, value, datetime.now(UTC))


class BeforeFilter(Filter):
    """The rows that an earlier search did not reach; shown only if the URL has it."""

    title, parameter_name = _("where to look"), slices.BEFORE
    narrowed = staticmethod(criteria.by_end)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        asked = [key for key in request.GET.getlist(slices.BEFORE) if key.isdecimal()]
        return [(key, _("older than number %s") % key) for key in asked]


class StaleFilter(Filter):
    """Whether a worker is alive, by the database's clock."""

    title, parameter_name = _("status"), "status"
    offered = [("alive", _("alive")), ("stale", _("stale"))]

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        wanted = {"alive": Q(deadline__gte=UTCNow()), "stale": Q(deadline__lt=UTCNow())}.get(value)
        return rows.filter(wanted) if wanted else rows


class ModeFilter(Filter):
    """What an operator has told a worker to do."""

    title, parameter_name = _("worker command"), "conduct"
    offered = [("work", _("takes work")), ("quiet", _("takes no new work")), ("stop", _("stops"))]


class ConsumerStateFilter(Filter):
    """The state of a consumer, as its worker reported it."""

    title, parameter_name = _("state"), "state"
    offered = [
        ("idle", _("idle")),
        ("working", _("working")),
        ("busy", _("at its max in flight")),
        ("stopping", _("stopping")),
        ("paused", _("paused")),
        ("still", _("stands still")),
    ]

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        if value not in {"idle", "working"}:
            return rows.filter(state=value)
        waiting = rows.filter(state__in=["interested", "notified"])
        return waiting.filter(credit_used=0) if value == "idle" else waiting.exclude(credit_used=0)


class SpanFilter(admin.ListFilter):
    """Rows with a time from one time until before another, in the time zone of the site."""

    template = "admin/django_mq/span_filter.html"
    title: StrOrPromise = _("time published")
    #: The URL parameters, and the field to compare.
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
        """Yield the form: its fields, and the other URL parameters as hidden fields."""
        left_out = {*self.names, "p", "e"}
        yield {
            "fields": [
                self._field(name, label) for name, label in zip(self.names, (_("From"), _("Before")), strict=True)
            ],
            "kept": {name: _last(value) for name, value in changelist.params.items() if name not in left_out},
            "selected": bool(self.given),
            "query_string": changelist.get_query_string(remove=[*self.names]),
        }

    def _field(self, name: str, label: StrOrPromise) -> dict[str, Any]:
        value = self.given.get(name, "")
        found = criteria.moment(value) if value else None
        with suppress(OverflowError):  # the first and the last day of the calendar
            # A link names the time in another zone. What the form sends is local.
            value = localtime(found).replace(tzinfo=None).isoformat().removesuffix(":00") if found else value
        broken = bool(value) and found is None
        return {"name": name, "id": f"mq-{name}", "label": label, "value": value, "broken": broken}


class DueFilter(SpanFilter):
    title, names, field = _("time due"), ("due_since", "due_until"), "deliver_at"


class FinishedFilter(SpanFilter):
    title, field = _("time finished"), "finished_at"


class FailedFilter(SpanFilter):
    title, field = _("time failed"), "failed_at"


def _last(value: Any) -> str:
    """Return the value of a parameter, the last one of several."""
    return str(value[-1]) if isinstance(value, list) else str(value)
