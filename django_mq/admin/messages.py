"""Messages: where each stands, who holds it, what it carries and what went wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ALL_VAR, ERROR_FLAG, PAGE_VAR
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns, failures, payload, timeline
from django_mq.admin.dead_letters import DeadLetters
from django_mq.admin.downloads import DOWNLOAD, DOWNLOADS, Downloads
from django_mq.admin.durations import duration
from django_mq.admin.filters import (
    DELIVERY,
    AttemptsFilter,
    BeforeFilter,
    ErrorFilter,
    ExceptionFilter,
    OrderFilter,
    PriorityFilter,
    PublishedFilter,
    QueueFilter,
    StateFilter,
    TypeFilter,
    WorkerFilter,
    is_in_one_line,
)
from django_mq.admin.message_actions import MessageActions
from django_mq.admin.message_acts import ACTS, RETRY
from django_mq.admin.paging import BoundedPaginator
from django_mq.admin.publishing import COPY, Publishing
from django_mq.admin.search import HeaderSearch
from django_mq.admin.span_filter import DueFilter, SpanFilter
from django_mq.admin.suggesting import Suggestions
from django_mq.admin.table import ReadOnly
from django_mq.delivery.redriving import is_letter
from django_mq.diagnosis import looking, narrowing
from django_mq.models import Message

if TYPE_CHECKING:
    from django.db.models import Q, QuerySet
    from django.http import HttpRequest

    from django_mq.diagnosis.slices import Look

#: Never fetched for a list: they may be large, and headers that are no JSON cannot be fetched this way at all.
PAYLOAD = ("headers", "properties", "body")
#: What an address says beside filters.
BESIDE = {"order", PAGE_VAR, ALL_VAR, ERROR_FLAG}


class MessageAdmin(Publishing, ReadOnly, HeaderSearch, Suggestions, MessageActions, Downloads, DeadLetters):
    """Look at messages, steer them, publish one; none is edited here."""

    paginator = BoundedPaginator
    actions = [*(act.name for act in ACTS), *DOWNLOADS]
    late = ["body"]
    list_display = ["short_id", "queue", "situation", "priority", "type", "attempts", "published"]
    list_filter = [
        StateFilter,
        QueueFilter,
        OrderFilter,
        TypeFilter,
        PriorityFilter,
        AttemptsFilter,
        ErrorFilter,
        ExceptionFilter,
        WorkerFilter,
        PublishedFilter,
        SpanFilter,
        DueFilter,
        BeforeFilter,
    ]
    list_select_related = ["queue", "session"]
    # Any other order would sort millions of rows for one page.
    sortable_by = ()
    ordering = ["-id"]
    fieldsets = [
        (None, {"fields": ["message_id", "queue", "situation", "holder"]}),
        (gettext_lazy("Order"), {"fields": [("priority", "level"), ("place", "id")]}),
        (gettext_lazy("Deliveries"), {"fields": [("attempts", "redelivered", "suspect")]}),
        (
            gettext_lazy("Times"),
            {"fields": [("published_at", "deliver_at", "expires_at"), ("claimed_at", "dead_at")]},
        ),
        (
            gettext_lazy("Properties"),
            {"fields": ["type", "correlation_id", "group_key", ("content_type", "content_encoding")]},
        ),
    ]
    change_form_template = "admin/django_mq/message/change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        return super().get_queryset(request).select_related("queue", "session").defer(*PAYLOAD, "session__queues")

    def get_ordering(self, request: HttpRequest) -> Any:
        """Newest first, or, of the ready ones of a queue, as they are delivered: both come from an index."""
        if request.GET.get("order") == DELIVERY and is_in_one_line(request.GET):
            return ["-level", "place", "id"]
        return ["-id"]

    def find(self, request: HttpRequest, rows: QuerySet[Any], limit: int, *, among: Q | None = None) -> Look:
        """Look by the indexes that the filters can use; narrowed by anything else, as in any table."""
        filters = narrowing.known(request.GET.dict())
        if request.GET.keys() - narrowing.NAMES - BESIDE or not self.is_as_its_address_says(request):
            return super().find(request, rows, limit, among=among)
        if not among and request.GET.get("order") == DELIVERY and is_in_one_line(request.GET):
            return looking.in_line(rows, filters, limit)
        return looking.of_messages(rows, filters, limit, datetime.now(UTC), among=among)

    def is_as_its_address_says(self, request: HttpRequest) -> bool:
        """Return False on a site's own page that hides some rows, searches otherwise or has filters of its own."""
        page = type(self)
        if page.get_queryset is not MessageAdmin.get_queryset:
            return False
        searches = page.get_search_results is MessageAdmin.get_search_results
        return searches and set(self.get_list_filter(request)) <= set(MessageAdmin.list_filter)

    # Columns.

    @admin.display(description=gettext_lazy("message"))
    def short_id(self, message: Message) -> str:
        return columns.short_id(message.message_id)

    @admin.display(description=gettext_lazy("published"))
    def published(self, message: Message) -> str:
        return columns.ago(message.published_at)

    @admin.display(description=gettext_lazy("state"))
    def situation(self, message: Message) -> str:
        """Return the state with what it does not tell: until when, by whom, why."""
        words = {"state": message.get_state_display(), "reason": message.dead_reason}
        if message.state == Message.Status.SCHEDULED and message.deliver_at:
            return _("%(state)s, due %(time)s") % {**words, "time": columns.time_text(message.deliver_at)}
        if message.state == Message.Status.CLAIMED:
            return _("%(state)s by %(worker)s") % {**words, "worker": _worker(message)}
        return "{state}: {reason}".format(**words) if message.dead_reason else words["state"]

    @admin.display(description=gettext_lazy("held by"))
    def holder(self, message: Message) -> str:
        if message.session_id is None:
            return _("nobody")
        if message.session is None:
            return _("%(worker)s, which is gone") % {"worker": _worker(message)}
        words = {"worker": _worker(message), "deadline": columns.time_text(message.session.deadline)}
        if message.session.deadline < datetime.now(UTC):
            return _("%(worker)s, which was due to report by %(deadline)s") % words
        left = duration((message.session.deadline - datetime.now(UTC)).total_seconds())
        return _("%(worker)s until %(deadline)s (%(left)s left, renewed while it lives)") % {**words, "left": left}

    # The detail page.

    def details(self, request: HttpRequest, row: Message) -> dict[str, Any]:
        attempts = failures.of_message(row.message_id, row.correlation_id)
        copy = f"{self.add_address()}?{COPY}={row.pk}" if self.has_add_permission(request) else ""
        headers = payload.raw(row, "headers")
        return self.buttons(self._acts_for(request, row, headers)) | {
            "copy_address": copy,
            "headers": payload.headers(headers, row.queue.name),
            "properties": payload.headers(payload.raw(row, "properties"), row.queue.name),
            "body": payload.body(row.body, row.content_type, row.content_encoding, queue=row.queue.name),
            "attempts": attempts,
            "timeline": timeline.of_message(row, attempts),
        }

    def _acts_for(self, request: HttpRequest, message: Message, headers: str | None) -> list[tuple[str, str]]:
        """Return the acts that apply to the message now and that the user may do."""
        dead = message.state == Message.Status.DEAD or is_letter(message.queue.name, headers)
        fit = (act for act in ACTS if message.state in act.states and (dead or act is not RETRY))
        acts = [(act.name, str(act.label)) for act in fit if self.may(request, act.permission)]
        return [*acts, (DOWNLOAD[0], str(DOWNLOAD[1]))]


def _worker(message: Message) -> str:
    if message.session is None:
        return _("session %(id)s") % {"id": message.session_id}
    return message.session.name
