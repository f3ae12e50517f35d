"""Worker sessions: who is alive, what it may hold, and what its consumers take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.durations import duration
from django_mq.admin.table import ReadOnly, TableAdmin, alias
from django_mq.models import Consumer, Message, WorkerSession

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


class ConsumerInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg] # not subscriptable at run time
    """The consumers of a session, as of its last heartbeat."""

    model = Consumer
    fields = ["queue_name", "handler", "priority", "state", "credit", "delivered"]
    readonly_fields = ["credit"]
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Consumer]:
        return super().get_queryset(request).using(alias())

    @admin.display(description=gettext_lazy("credit used"))
    def credit(self, consumer: Consumer) -> str:
        return f"{consumer.credit_used} / {consumer.credit_limit or _('no limit')}"


class WorkerSessionAdmin(ReadOnly, TableAdmin):
    """One row a worker process; stale ones stand out."""

    list_display = [
        "name",
        "status",
        "kind",
        "process",
        "version",
        "taking",
        "holding",
        "heartbeat",
    ]
    list_filter = ["kind"]
    search_fields = ["name", "host"]
    inlines = [ConsumerInline]
    fieldsets = [
        (None, {"fields": ["name", "status", "kind", ("host", "pid", "version")]}),
        (gettext_lazy("Work"), {"fields": ["taking", "holding"]}),
        (gettext_lazy("Life"), {"fields": ["started_at", "heartbeat", "deadline"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[WorkerSession]:
        # The database's clock decides, as it does for those who reap.
        stale = ExpressionWrapper(Q(deadline__lt=Now()), output_field=BooleanField())
        sessions: QuerySet[WorkerSession] = super().get_queryset(request)
        return sessions.annotate(stale=stale)

    @admin.display(description=gettext_lazy("process"))
    def process(self, session: WorkerSession) -> str:
        return f"{session.host}, {session.pid}"

    @admin.display(description=gettext_lazy("status"))
    def status(self, session: Any) -> str:
        if not session.stale:
            return _("alive")
        late = duration((timezone.now() - session.deadline).total_seconds())
        return format_html('<strong class="mq-bad">{}</strong>', _("stale for %(time)s") % {"time": late})

    @admin.display(description=gettext_lazy("queues"))
    def taking(self, session: WorkerSession) -> str:
        return ", ".join(map(str, session.queues))

    @admin.display(description=gettext_lazy("held / credit"))
    def holding(self, session: WorkerSession) -> str:
        address = self.list_address(Message, state=Message.Status.CLAIMED.value, session=session.pk)
        return format_html('<a href="{}">{} / {}</a>', address, session.held, session.credit or _("no limit"))

    @admin.display(description=gettext_lazy("last heartbeat"))
    def heartbeat(self, session: WorkerSession) -> str:
        return columns.ago(session.heartbeat_at)
