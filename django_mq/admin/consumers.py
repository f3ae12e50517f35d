"""Consumers: who takes from which queue, with how much credit, as of the last heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import BooleanField, ExpressionWrapper, F, OuterRef, Q, Subquery
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.base import base_of
from django_mq.admin.filters import QueueNameFilter
from django_mq.admin.table import ReadOnly, TableAdmin, alias
from django_mq.models import Consumer, Queue, WorkerSession

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


def with_states(consumers: QuerySet[Any]) -> QuerySet[Any]:
    """Return them with what their own rows do not say: whether their queue is paused and their worker stale."""
    open_ended = Q(paused_until__isnull=True) | Q(paused_until__gt=Now())
    paused = Queue.objects.filter(open_ended, name=OuterRef("queue_name"), paused=True).values("pk")[:1]
    late = ExpressionWrapper(Q(session__deadline__lt=Now()), output_field=BooleanField())
    told: QuerySet[Any] = consumers.annotate(pausing=Subquery(paused), stale=late, conduct=F("session__conduct"))
    return told


def state_of(consumer: Any) -> str:
    """Return in a word what keeps a consumer from being given messages, or how it waits for them."""
    if consumer.stale:
        return format_html('<strong class="mq-bad">{}</strong>', _("stale"))
    if consumer.conduct == WorkerSession.Conduct.QUIET:
        return _("quiet")
    if consumer.pausing is not None:
        return format_html('<span class="mq-warn">{}</span>', _("paused"))
    return str(consumer.get_state_display())


def credit_of(consumer: Consumer) -> str:
    """Return the credit in use, of how much."""
    return f"{consumer.credit_used} / {consumer.credit_limit or _('no limit')}"


if TYPE_CHECKING:
    BaseInline = admin.TabularInline[Consumer, WorkerSession]
else:
    BaseInline = base_of("TabularInline")


class ConsumerInline(ReadOnly, BaseInline):
    """The consumers of a session, as of its last heartbeat."""

    model = Consumer
    fields = ["queue_name", "handler", "priority", "situation", "credit", "delivered"]
    readonly_fields = ["situation", "credit"]
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Consumer]:
        return with_states(super().get_queryset(request).using(alias()))

    @admin.display(description=gettext_lazy("state"))
    def situation(self, consumer: Consumer) -> str:
        return state_of(consumer)

    @admin.display(description=gettext_lazy("credit used"))
    def credit(self, consumer: Consumer) -> str:
        return credit_of(consumer)


class ConsumerAdmin(ReadOnly, TableAdmin):
    """All consumers of all workers, by queue."""

    list_display = ["queue_name", "worker", "handler", "situation", "credit", "delivered", "priority", "heartbeat"]
    list_display_links = None
    list_filter = [QueueNameFilter, "state"]
    search_fields = ["queue_name", "handler", "session__name", "session__host"]
    ordering = ["queue_name", "-id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Consumer]:
        return with_states(super().get_queryset(request).select_related("session"))

    @admin.display(description=gettext_lazy("worker"), ordering="session__name")
    def worker(self, consumer: Consumer) -> str:
        name = f"{self.admin_site.name}:{self.opts.app_label}_workersession_change"
        address = reverse(name, args=[consumer.session_id])
        return format_html('<a href="{}">{}</a>', address, consumer.session.name)

    @admin.display(description=gettext_lazy("state"))
    def situation(self, consumer: Consumer) -> str:
        return state_of(consumer)

    @admin.display(description=gettext_lazy("credit used"))
    def credit(self, consumer: Consumer) -> str:
        return credit_of(consumer)

    @admin.display(description=gettext_lazy("last heartbeat"))
    def heartbeat(self, consumer: Consumer) -> str:
        return columns.ago(consumer.session.heartbeat_at)
