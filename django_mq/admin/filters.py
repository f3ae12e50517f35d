"""Filters whose choices cost no walk over the messages, and read the alias of the queues."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_mq.admin.table import alias
from django_mq.diagnosis import indexed, narrowing, slices
from django_mq.models import Attempt, Message, Queue, WorkerSession
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest

#: Newest messages whose types are offered as choices; any other type may be named in the address.
TYPES_SAMPLE = 1000
#: Most choices that a filter offers.
CHOICES = 50
#: The order in which messages are delivered, in the list's address.
DELIVERY = "delivery"


def _choices(newest: Iterable[str], asked: Iterable[str]) -> list[tuple[str, str]]:
    """Offer what the newest rows have, and what the address asks for."""
    return [(value, value) for value in sorted({*newest, *asked} - {""})[:CHOICES]]


def _newest_attempts(field: str) -> Iterable[str]:
    return Attempt.objects.using(alias()).values_list(field, flat=True)[:TYPES_SAMPLE]


def _some_letters() -> list[int]:
    """Return dead letters of the newest messages; where these have none, whichever are first in their indexes."""
    letters = narrowing.by_state(Message.objects.using(alias()), indexed.DEAD_LETTERS)
    look = slices.newest(letters, TYPES_SAMPLE, patience=0)
    if look.ids or look.whole:
        return look.ids
    parts = indexed.parts({"state": indexed.DEAD_LETTERS}, alias()) or []
    return [key for part in parts for key in part[:TYPES_SAMPLE]][:TYPES_SAMPLE]


class StateFilter(admin.SimpleListFilter):
    """One state, or dead letters wherever they are."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        states = [(str(value), label) for value, label in Message.Status.choices]
        return [*states, (indexed.DEAD_LETTERS, _("dead letters, also in dead-letter queues"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return narrowing.by_state(queryset, self.value() or "")


class QueueFilter(admin.SimpleListFilter):
    """One queue, by name."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [(name, name) for name in Queue.objects.using(alias()).values_list("name", flat=True)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return narrowing.by_queue(queryset, self.value() or "") if self.value() else queryset


class QueueNameFilter(QueueFilter):
    """The same for tables that remember the queue's name only."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(queue_name=self.value()) if self.value() else queryset


class TypeFilter(admin.SimpleListFilter):
    """One type; offered are the types of the newest messages."""

    title = _("type")
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        newest = Message.objects.using(alias()).values_list("type", flat=True)[:TYPES_SAMPLE]
        types = set(newest) | set(request.GET.getlist("type"))
        return [(name, name) for name in sorted(types) if name]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(type=self.value()) if self.value() else queryset


class PastTypeFilter(admin.SimpleListFilter):
    """One type of what is over; offered are those of the newest rows."""

    title = _("type")
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        newest = model_admin.model.objects.using(alias()).order_by("-id").values_list("type", flat=True)
        return _choices(newest[:TYPES_SAMPLE], request.GET.getlist("type"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(type=self.value()) if self.value() else queryset


class PriorityFilter(admin.SimpleListFilter):
    """One priority, 9 first."""

    title = _("priority")
    parameter_name = "priority"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [(str(priority), str(priority)) for priority in range(9, -1, -1)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return narrowing.by_priority(queryset, self.value() or "")


class AttemptsFilter(admin.SimpleListFilter):
    """How often a message has failed."""

    title = _("failed attempts")
    parameter_name = "attempts"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        none, *borders = narrowing.ATTEMPTS
        return [(none, _("none")), *((border, _("%s or more") % border) for border in borders)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return narrowing.by_attempts(queryset, self.value() or "")


class WorkerFilter(admin.SimpleListFilter):
    """What one worker session holds."""

    title = _("worker")
    parameter_name = "worker"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        newest = WorkerSession.objects.using(alias()).order_by("-id").values_list("pk", "name")[:CHOICES]
        return [(str(pk), name) for pk, name in newest]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return narrowing.by_worker(queryset, self.value() or "")


class ErrorFilter(admin.SimpleListFilter):
    """Why messages are dead; offered are the reasons of the newest dead letters."""

    title = _("reason")
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        newest = Message.objects.using(alias()).filter(pk__in=_some_letters()).order_by()
        return _choices(newest.values_list("dead_reason", flat=True), request.GET.getlist("reason"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return narrowing.by_reason(queryset, self.value() or "") if self.value() else queryset


class ExceptionFilter(admin.SimpleListFilter):
    """What attempts have failed with; offered are the exceptions of the newest failed attempts."""

    title = _("exception")
    parameter_name = "error"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return _choices(_newest_attempts("error"), request.GET.getlist("error"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        if queryset.model is Attempt:
            return queryset.filter(error=self.value())
        return narrowing.by_error(queryset, self.value() or "")


class FailingWorkerFilter(admin.SimpleListFilter):
    """The worker whose attempt failed; offered are those of the newest failed attempts."""

    title = _("worker")
    parameter_name = "worker"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return _choices(_newest_attempts("worker"), request.GET.getlist("worker"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(worker=self.value()) if self.value() else queryset


class FinishingWorkerFilter(WorkerFilter):
    """The living worker session that finished it."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value() or ""
        return queryset.filter(session_id=int(value[:18])) if value.isdecimal() else queryset


class OrderFilter(admin.SimpleListFilter):
    """In which order: only the ready messages of one queue have an index in theirs."""

    title = _("order")
    parameter_name = "order"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [(DELIVERY, _("as they are delivered"))] if is_in_one_line(request.GET) else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset  # the list's own ordering sees to it

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        newest, *others = super().choices(changelist)
        yield newest | {"display": _("newest first")}
        yield from others


def is_in_one_line(address: Mapping[str, str]) -> bool:
    """Return whether an address shows the ready messages of one queue."""
    return bool(address.get("queue")) and address.get("state") == str(Message.Status.READY.value)


class PublishedFilter(admin.SimpleListFilter):
    """When a message was published."""

    title = _("published")
    parameter_name = "published"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [
            ("hour", _("in the last hour")),
            ("day", _("in the last 24 hours")),
            ("week", _("in the last 7 days")),
            ("older", _("before")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return narrowing.by_age(queryset, self.value() or "", datetime.now(UTC))


class BeforeFilter(admin.SimpleListFilter):
    """What an earlier look has not come to; offered only where the address asks for it."""

    title = _("where to look")
    parameter_name = slices.BEFORE

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        asked = [key for key in request.GET.getlist(slices.BEFORE) if key.isdecimal()]
        return [(key, _("older than number %s") % key) for key in asked]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return narrowing.by_end(queryset, self.value() or "")


class StaleFilter(admin.SimpleListFilter):
    """Workers that are alive, or past their deadline, by the database's clock."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        return [("alive", _("alive")), ("stale", _("stale"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        wanted = {"alive": Q(deadline__gte=UTCNow()), "stale": Q(deadline__lt=UTCNow())}.get(self.value() or "")
        return queryset.filter(wanted) if wanted else queryset
