"""Consumers: who takes from which queue, with how much credit, as of the last heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import F, OuterRef, Subquery
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.base import base_of
from django_mq.admin.filters import QueueNameFilter
from django_mq.admin.table import ReadOnly, TableAdmin, alias
from django_mq.diagnosis.fleet import is_late
from django_mq.engine.pause import is_paused
from django_mq.models import Consumer, Queue, WorkerSession
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


def with_states(consumers: QuerySet[Any]) -> QuerySet[Any]:
    """Return them with what their own rows do not say: whether their queue is paused and their worker stale."""
    queue = Queue.objects.filter(name=OuterRef("queue_name"))
    told: QuerySet[Any] = consumers.annotate(
        queue_paused=Subquery(queue.values("paused")[:1]),
        queue_paused_until=Subquery(queue.values("paused_until")[:1]),
        now=UTCNow(),
        stale=is_late("session__deadline"),
        conduct=F("session__conduct"),
    )
    return told


class Situation:
    """The columns that both pages of consumers have, for rows of ``with_states``."""

    @admin.display(description=gettext_lazy("state"))
    def situation(self, consumer: Any) -> str:
        """Return in a word what keeps a consumer from being given messages, or how it waits for them."""
        if consumer.stale:
            return format_html('<strong class="mq-bad">{}</strong>', _("stale"))
        if consumer.conduct == WorkerSession.Conduct.QUIET:
            return _("quiet")
        if is_paused(consumer.queue_paused, consumer.queue_paused_until, consumer.now):
            return format_html('<span class="mq-warn">{}</span>', _("paused"))
        return str(consumer.get_state_display())

    @admin.display(description=gettext_lazy("credit used"))
    def credit(self, consumer: Consumer) -> str:
        """Return the credit in use, of how much."""
        return f"{consumer.credit_used} / {consumer.credit_limit or _('no limit')}"


if TYPE_CHECKING:
    BaseInline = admin.TabularInline[Consumer, WorkerSession]
else:
    BaseInline = base_of("TabularInline")


class ConsumerInline(Situation, ReadOnly, BaseInline):
    """The consumers of a session, as of its last heartbeat."""

    model = Consumer
    fields = ["queue_name", "handler", "priority", "situation", "credit", "delivered"]
    readonly_fields = ["situation", "credit"]
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Consumer]:
        return with_states(super().get_queryset(request).using(alias()))


class ConsumerAdmin(Situation, ReadOnly, TableAdmin):
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

    @admin.display(description=gettext_lazy("last heartbeat"))
    def heartbeat(self, consumer: Consumer) -> str:
        return columns.ago(consumer.session.heartbeat_at)
