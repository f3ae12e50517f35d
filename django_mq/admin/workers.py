"""Worker sessions: who is alive, what it may hold, what its consumers take, and what it is told to do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.consumers import ConsumerInline
from django_mq.admin.durations import duration
from django_mq.admin.filters import StaleFilter
from django_mq.admin.table import ReadOnly
from django_mq.admin.worker_actions import WorkerActions
from django_mq.admin.worker_acts import ACTS, QUIET, WORK
from django_mq.diagnosis.fleet import is_late
from django_mq.models import Message, WorkerSession

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

Conduct = WorkerSession.Conduct


class WorkerSessionAdmin(ReadOnly, WorkerActions):
    """One row a worker process; stale ones stand out."""

    list_display = [
        "name",
        "status",
        "heartbeat",
        "taking",
        "holding",
        "working",
        "memory",
        "kind",
        "process",
    ]
    list_filter = [StaleFilter, "kind", "conduct"]
    search_fields = ["name", "host"]
    inlines = [ConsumerInline]
    fieldsets = [
        (None, {"fields": ["name", "status", "kind", ("host", "pid", "version")]}),
        (gettext_lazy("Work"), {"fields": ["taking", "holding", "working", "memory"]}),
        (gettext_lazy("Told by an operator"), {"fields": [("conduct", "given_credit")]}),
        (gettext_lazy("Life"), {"fields": ["started_at", "heartbeat", "deadline"]}),
    ]
    change_form_template = "admin/django_mq/row.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[WorkerSession]:
        sessions: QuerySet[WorkerSession] = super().get_queryset(request)
        return sessions.annotate(stale=is_late())

    @admin.display(description=gettext_lazy("process"))
    def process(self, session: WorkerSession) -> str:
        return f"{session.host}, {session.pid}, {session.version}"

    @admin.display(description=gettext_lazy("status"))
    def status(self, session: Any) -> str:
        if session.stale:
            late = duration((datetime.now(UTC) - session.deadline).total_seconds())
            return format_html('<strong class="mq-bad">{}</strong>', _("stale for %(time)s") % {"time": late})
        words = {Conduct.QUIET: _("alive, told to be quiet"), Conduct.STOP: _("alive, told to stop")}
        told = words.get(session.conduct)
        return format_html('<span class="mq-warn">{}</span>', told) if told else _("alive")

    @admin.display(description=gettext_lazy("queues"))
    def taking(self, session: WorkerSession) -> str:
        return ", ".join(map(str, session.queues))

    @admin.display(description=gettext_lazy("held / credit"))
    def holding(self, session: WorkerSession) -> str:
        address = self.list_address(Message, state=Message.Status.CLAIMED.value, worker=session.pk)
        return format_html('<a href="{}">{} / {}</a>', address, session.held, session.credit or _("no limit"))

    @admin.display(description=gettext_lazy("busy slots"))
    def working(self, session: WorkerSession) -> str:
        return "-" if session.slots is None else f"{session.busy or 0} / {session.slots}"

    @admin.display(description=gettext_lazy("memory"))
    def memory(self, session: WorkerSession) -> str:
        return "-" if session.memory_bytes is None else filesizeformat(session.memory_bytes)

    @admin.display(description=gettext_lazy("last heartbeat"))
    def heartbeat(self, session: WorkerSession) -> str:
        return columns.ago(session.heartbeat_at)

    def details(self, request: HttpRequest, row: WorkerSession) -> dict[str, Any]:
        pointless = {WORK.name} if row.conduct == Conduct.WORK else {QUIET.name}
        fit = (act for act in ACTS if act.name not in pointless and self.may(request, act.permission))
        return self.buttons([(act.name, str(act.label)) for act in fit])
