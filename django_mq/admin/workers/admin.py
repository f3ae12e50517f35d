"""The lists of worker sessions and of consumers, and the page of a session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.db.models import F, OuterRef, Subquery
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.actions import ActionAdmin, Preview
from django_mq.admin.addresses import message_address
from django_mq.admin.filters import ConsumerStateFilter, ModeFilter, QueueNameFilter, StaleFilter
from django_mq.admin.table import ReadOnly, TableAdmin, alias, base_of
from django_mq.admin.workers import running
from django_mq.admin.workers.actions import ACTIONS, QUIET, WORK
from django_mq.diagnosis.language import LOCAL, exact
from django_mq.diagnosis.state.fleet import is_late
from django_mq.engine.decisions.claim import is_paused
from django_mq.models import Consumer, Message, Queue, WorkerSession
from django_mq.models.times import UTCNow
from django_mq.stores.records import running_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.admin.actions import Action
    from django_mq.stores.records import Running

Mode = WorkerSession.Mode
#: A consumer that was notified of messages is about to claim: nothing that an operator could act on.
CONSUMER_STATES = {
    Consumer.Status.INTERESTED: gettext_lazy("idle"),
    Consumer.Status.NOTIFIED: gettext_lazy("idle"),
    Consumer.Status.BUSY: gettext_lazy("at its max in flight"),
    Consumer.Status.STOPPING: gettext_lazy("stopping"),
    Consumer.Status.PAUSED: gettext_lazy("paused"),
    Consumer.Status.STILL: gettext_lazy("stands still"),
}
#: The states that all consumers of a worker have together.
OF_THE_WORKER = (Consumer.Status.STOPPING, Consumer.Status.STILL)
#: The states of a consumer that has credit for more messages.
WAITING = {Consumer.Status.INTERESTED, Consumer.Status.NOTIFIED}


def with_states(consumers: QuerySet[Any]) -> QuerySet[Any]:
    """Return consumers with whether their queue is paused and their worker is stale."""
    queue = Queue.objects.filter(name=OuterRef("queue_name"))
    told: QuerySet[Any] = consumers.annotate(
        queue_paused=Subquery(queue.values("paused")[:1]),
        queue_paused_until=Subquery(queue.values("paused_until")[:1]),
        now=UTCNow(),
        stale=is_late("session__deadline"),
        conduct=F("session__conduct"),
    )
    return told


class ConsumerColumns:
    """The columns of consumers, for rows of ``with_states``."""

    @admin.display(description=gettext_lazy("state"))
    def situation(self, consumer: Any) -> str:
        """Return what keeps a consumer from getting messages, or its state."""
        if consumer.stale:
            return format_html('<strong class="mq-bad">{}</strong>', _("stale"))
        if consumer.conduct == Mode.QUIET:
            return _("takes no new work")
        if is_paused(consumer.queue_paused, consumer.queue_paused_until, consumer.now):
            return format_html('<span class="mq-warn">{}</span>', _("paused"))
        if consumer.state in WAITING and consumer.credit_used:
            return _("working")
        return str(CONSUMER_STATES.get(consumer.state, consumer.state))

    @admin.display(description=gettext_lazy("in flight / max"))
    def credit(self, consumer: Consumer) -> str:
        return columns.share(consumer.credit_used, consumer.credit_limit)

    @admin.display(description=gettext_lazy("delivered"), ordering="delivered")
    def given(self, consumer: Consumer) -> str:
        return exact(consumer.delivered)


if TYPE_CHECKING:
    BaseInline = admin.TabularInline[Consumer, WorkerSession]
else:
    BaseInline = base_of("TabularInline")


class ConsumerInline(ConsumerColumns, ReadOnly, BaseInline):
    model = Consumer
    fields = ["queue_name", "handler", "selector", "priority", "situation", "credit", "given"]
    readonly_fields = ["situation", "credit", "given"]
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Consumer]:
        return with_states(super().get_queryset(request).using(alias()))


class WorkerSessionAdmin(ReadOnly, ActionAdmin):
    pages = {"running/": running.page, "running.json": running.as_json, "stop_running/": running.stop}
    actions = ACTIONS
    list_display = ["name", "status", "heartbeat", "taking", "holding", "working", "memory", "kind", "process"]
    list_filter = [StaleFilter, "kind", ModeFilter]
    search_fields = ["name", "host"]
    inlines = [ConsumerInline]
    fieldsets = [
        (None, {"fields": ["name", "status", "kind", ("host", "pid", "version")]}),
        (gettext_lazy("Work"), {"fields": ["taking", "holding", "working", "handling", "memory"]}),
        (gettext_lazy("Told by an operator"), {"fields": [("conduct", "given_credit")]}),
        (gettext_lazy("Life"), {"fields": ["started_at", "heartbeat", "deadline"]}),
    ]
    change_form_template = "admin/django_mq/row.html"

    heartbeat = columns.ago_column("heartbeat_at", gettext_lazy("last heartbeat"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[WorkerSession]:
        sessions: QuerySet[WorkerSession] = super().get_queryset(request)
        shown = Consumer.objects.filter(session=OuterRef("pk"), state__in=[*OF_THE_WORKER]).values("state")[:1]
        return sessions.annotate(stale=is_late(), shown=Subquery(shown))

    @admin.display(description=gettext_lazy("process"))
    def process(self, session: WorkerSession) -> str:
        return f"{session.host}, {session.pid}, {session.version}"

    @admin.display(description=gettext_lazy("status"))
    def status(self, session: Any) -> str:
        if session.stale:
            late = LOCAL.duration((datetime.now(UTC) - session.deadline).total_seconds())
            return format_html('<strong class="mq-bad">{}</strong>', _("stale for %(time)s") % {"time": late})
        words = {Mode.QUIET: _("alive, takes no new work"), Mode.STOP: _("alive, told to stop")}
        told = words.get(session.conduct) or (session.shown and CONSUMER_STATES[session.shown])
        return format_html('<span class="mq-warn">{}</span>', told) if told else _("alive")

    @admin.display(description=gettext_lazy("queues"))
    def taking(self, session: WorkerSession) -> str:
        return ", ".join(map(str, session.queues))

    @admin.display(description=gettext_lazy("in flight / max"))
    def holding(self, session: WorkerSession) -> str:
        address = self.list_address(Message, state=Message.Status.CLAIMED.value, worker=session.pk)
        return format_html('<a href="{}">{}</a>', address, columns.share(session.held, session.credit))

    @admin.display(description=gettext_lazy("busy slots"))
    def working(self, session: WorkerSession) -> str:
        return "-" if session.slots is None else columns.share(session.busy or 0, session.slots)

    @admin.display(description=gettext_lazy("what runs"), empty_value="-")
    def handling(self, session: WorkerSession) -> str:
        """Return what was being handled at the last heartbeat, each with a link to its message."""
        runs = running_in(session.running)
        rows = ((self._address_of(run), run.handler, LOCAL.duration(run.seconds)) for run in runs)
        return format_html_join(mark_safe("<br>"), _('<a href="{}">{}</a> for {}'), rows)

    def _address_of(self, run: Running) -> str:
        if run.begun is not None:
            return message_address(self, UUID(run.begun.message_id))
        return self.page_address(Message, run.id)

    @admin.display(description=gettext_lazy("memory"))
    def memory(self, session: WorkerSession) -> str:
        return LOCAL.size(session.memory_bytes)

    def details(self, request: HttpRequest, row: WorkerSession) -> dict[str, Any]:
        pointless = WORK if row.conduct == Mode.WORK else QUIET
        fit = (action for action in ACTIONS if action is not pointless and self.may_do(request, action))
        return self.buttons([(action.name, str(action.label)) for action in fit])

    def preview(self, action: Action, chosen: Sequence[WorkerSession]) -> Preview:  # noqa: ARG002 - for others
        rows = [[one.name, ", ".join(map(str, one.queues)), exact(one.held)] for one in chosen]
        return Preview([_("Worker"), _("Queues"), _("Held")], rows)


class ConsumerAdmin(ConsumerColumns, ReadOnly, TableAdmin):
    list_display = [
        "queue_shown",
        "worker",
        "handler_shown",
        "selector",
        "situation",
        "credit",
        "given",
        "priority",
        "heartbeat",
    ]
    queue_shown = columns.name_column("queue_name", gettext_lazy("queue"))
    handler_shown = columns.name_column("handler", gettext_lazy("handler"))
    heartbeat = columns.ago_column("session.heartbeat_at", gettext_lazy("last heartbeat"))
    list_display_links = None
    list_filter = [QueueNameFilter, ConsumerStateFilter]
    search_fields = ["queue_name", "handler", "selector", "session__name", "session__host"]
    ordering = ["queue_name", "-id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Consumer]:
        return with_states(super().get_queryset(request).select_related("session"))

    @admin.display(description=gettext_lazy("worker"), ordering="session__name")
    def worker(self, consumer: Consumer) -> str:
        address = self.page_address(WorkerSession, consumer.session_id)
        return format_html('<a href="{}">{}</a>', address, columns.breakable(consumer.session.name))
