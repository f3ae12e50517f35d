"""The list of messages, and the page of one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ALL_VAR, ERROR_FLAG, PAGE_VAR
from django.core.exceptions import PermissionDenied
from django.urls import path
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns, retries
from django_mq.admin.addresses import LIFE, SEARCH, chips
from django_mq.admin.filters import (
    DELIVERY,
    AttemptsFilter,
    BeforeFilter,
    DueFilter,
    ErrorFilter,
    ExceptionFilter,
    FailureGroupFilter,
    OrderFilter,
    PriorityFilter,
    PublishedFilter,
    QueueFilter,
    SpanFilter,
    StateFilter,
    TypeFilter,
    WorkerFilter,
    is_in_one_line,
)
from django_mq.admin.messages import canvas, descriptions, failures, life, publish_form, search_page
from django_mq.admin.messages.actions import ACTIONS
from django_mq.admin.messages.downloads import download_csv, download_json
from django_mq.admin.messages.selection import SelectionAdmin
from django_mq.admin.paginator import BoundedPaginator, MessageRows, posts_action
from django_mq.admin.panels import panels_of
from django_mq.admin.queues import now
from django_mq.admin.table import IdSearch, ReadOnly, alias
from django_mq.diagnosis.language import LOCAL, time_text
from django_mq.diagnosis.messages import criteria, finder, indexes, payload
from django_mq.diagnosis.messages.indexes import DEAD_LETTERS
from django_mq.diagnosis.messages.terms import matching
from django_mq.diagnosis.state.acknowledged import reasons_of
from django_mq.models import DeclinedMessage, Message, WorkerSession
from django_mq.replies.panel import bar_of, progress_in
from django_mq.stores.records import running_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from django.contrib.admin.views.main import ChangeList
    from django.db.models import Q, QuerySet
    from django.http import HttpRequest, HttpResponse

    from django_mq.diagnosis.messages.slices import FoundKeys

#: Lists do not fetch these: they may be large, and Django cannot decode invalid JSON.
PAYLOAD = ("headers", "properties", "body")
#: URL parameters that are not filters.
NOT_FILTERS = {"order", PAGE_VAR, ALL_VAR, ERROR_FLAG}
#: Values of the state filter that show only dead letters.
LETTER_STATES = {str(Message.Status.DEAD.value), DEAD_LETTERS}
DEAD_LETTER_COLUMNS = ["short_id", "queue_shown", "situation", "content", "failed", "errors", "published"]
RUNNING_COLUMNS = [
    *("short_id", "queue_shown", "situation", "progress", "content"),
    *("failed", "last_error", "published"),
]


class MessageList(MessageRows):
    """A page of messages. A few statements read the contents and failed attempts of the whole page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if not posts_action(request):
            rows = list(self.result_list)
            descriptions.describe(rows, chips(self.model_admin, [row.message_id for row in rows]))
            if _shows_what_runs(request.GET):
                found = progress_in([row.message_id for row in rows], using=alias())
                for row in rows:
                    row.reported = found.get(row.message_id)
        self.shows_dead_letters = _shows_dead_letters(request.GET)


class MessageAdmin(ReadOnly, IdSearch, SelectionAdmin):
    """Messages can be viewed, changed by actions and published, but not edited."""

    paginator = BoundedPaginator
    actions = [*ACTIONS, download_json, download_csv]
    late = ["body"]
    list_display = [
        *("short_id", "queue_shown", "situation", "content"),
        *("priority", "failed", "last_error", "published"),
    ]
    list_filter = [
        StateFilter,
        QueueFilter,
        OrderFilter,
        TypeFilter,
        PriorityFilter,
        AttemptsFilter,
        ErrorFilter,
        ExceptionFilter,
        FailureGroupFilter,
        WorkerFilter,
        PublishedFilter,
        SpanFilter,
        DueFilter,
        BeforeFilter,
    ]
    list_select_related = ["queue", "session"]
    # Another order would sort millions of rows for a page.
    sortable_by = ()
    ordering = ["-id"]
    fieldsets = [
        (None, {"fields": ["message_id", "queue", "situation", "acknowledged", "holder"]}),
        (gettext_lazy("Order"), {"fields": [("priority", "level"), ("place", "id")]}),
        (gettext_lazy("Deliveries"), {"fields": [("failed", "delivered_again", "is_suspect"), "declined_by"]}),
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
    search_help_text = gettext_lazy(
        "Search for a message id or a correlation id, such as the id of a Celery task. In the newest 100,000 "
        "messages, you can also search for the 8 characters of an id that lists show, or a header as name:value."
    )

    pages = {"canvas/": canvas.page}

    def get_urls(self) -> list[Any]:
        address = path("<uuid:message_id>/", self.admin_site.admin_view(self.life_view), name=LIFE)
        search = path("search/", self.admin_site.admin_view(self.search_view), name=SEARCH)
        return [address, search, *super().get_urls()]

    def life_view(self, request: HttpRequest, message_id: UUID) -> HttpResponse:
        """Show a message by its id, or by the id of its Celery task, wherever it is."""
        return life.page(self, request, message_id)

    def search_view(self, request: HttpRequest) -> HttpResponse:
        """Search live messages, the history and failed attempts."""
        return search_page.page(self, request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        return (
            super()
            .get_queryset(request)
            .select_related("queue", "session")
            .defer(*PAYLOAD, "session__queues", "session__running")
        )

    def get_ordering(self, request: HttpRequest) -> Any:
        """Return an order with an index: newest first, or delivery order for the ready messages of a queue."""
        if request.GET.get("order") == DELIVERY and is_in_one_line(request.GET):
            return ["-level", "place", "id"]
        return ["-id"]

    def find(self, request: HttpRequest, rows: QuerySet[Any], limit: int, *, among: Q | None = None) -> FoundKeys:
        """Find messages by indexes, or slice by slice if a subclass in the project has other conditions."""
        filters = criteria.known(request.GET.dict())
        if request.GET.keys() - criteria.NAMES - NOT_FILTERS or not self.is_described_by_url(request):
            return super().find(request, rows, limit, among=among)
        if not among and request.GET.get("order") == DELIVERY and is_in_one_line(request.GET):
            return finder.in_line(rows, filters, limit)
        return finder.of_messages(rows, filters, limit, datetime.now(UTC), among=among)

    def is_described_by_url(self, request: HttpRequest) -> bool:
        """Return False in a subclass that hides rows, searches in another way or has other filters."""
        page = type(self)
        if page.get_queryset is not MessageAdmin.get_queryset:
            return False
        searches = page.get_search_results is MessageAdmin.get_search_results
        return searches and set(self.get_list_filter(request)) <= set(MessageAdmin.list_filter)

    short_id = columns.id_column
    queue_shown = columns.name_column("queue", gettext_lazy("queue"))
    delivered_again = columns.yes_no_column("redelivered", gettext_lazy("redelivered"))
    is_suspect = columns.yes_no_column("suspect", gettext_lazy("suspect"))
    published = columns.ago_column("published_at", gettext_lazy("published"))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        message = super().get_object(request, object_id, from_field)
        if message is not None:
            declined = DeclinedMessage.objects.using(alias()).filter(
                queue_id=message.queue_id, message_id=message.pk
            )
            sessions = WorkerSession.objects.using(alias()).filter(pk__in=declined.values("session_id"))
            message.acknowledged = reasons_of([message.pk], using=alias()).get(message.pk, "")
            message.declined_by = ", ".join(sessions.order_by("pk").values_list("name", flat=True))
        return message

    def meant_by(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        return matching(queryset, term)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search only the rows that an index finds for the filters, if they are few."""
        few = indexes.few(criteria.known(request.GET.dict()), alias()) if search_term.strip() else None
        rows = queryset if few is None else queryset.filter(pk__in=few)
        return super().get_search_results(request, rows, search_term)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # noqa: ARG002
        return MessageList

    def list_title(self, request: HttpRequest) -> str:
        return _("Dead letters") if _shows_dead_letters(request.GET) else super().list_title(request)

    def get_list_display(self, request: HttpRequest) -> Any:
        if _shows_dead_letters(request.GET):
            return DEAD_LETTER_COLUMNS
        return RUNNING_COLUMNS if _shows_what_runs(request.GET) else super().get_list_display(request)

    @admin.display(description=gettext_lazy("state"))
    def situation(self, message: Message) -> str:
        """Return the state, with its time, its worker or its reason."""
        words = {"state": message.get_state_display()}
        if message.is_dead_letter:
            descriptions.of_row(message)  # reads the failures, too, on the page of a single message
            last = failures.of_row(message).last
            reason = failures.reason_of(message, last.error, last.detail) if last else message.dead_reason
            if not reason or (last is not None and reason.startswith(last.error)):
                return _("dead letter")  # the last error has the reason
            return columns.clip(_("dead letter: %(reason)s") % {"reason": reason})
        if message.is_retrying:
            return _retrying(message)
        if message.state == Message.Status.SCHEDULED and message.deliver_at:
            due = columns.ago(message.deliver_at)
            return format_html(_("{state}, due {time}"), state=words["state"], time=due)
        if message.state == Message.Status.CLAIMED:
            return _("%(state)s by %(worker)s") % {**words, "worker": _worker(message)}
        return words["state"]

    @admin.display(description=gettext_lazy("progress"), empty_value="-")
    def progress(self, message: Any) -> str | None:
        return bar_of(getattr(message, "reported", None)) or None

    @admin.display(description=gettext_lazy("held by"))
    def holder(self, message: Message) -> str:
        if message.session_id is None:
            return _("no worker holds it")
        if message.session is None:
            return _("%(worker)s, which does not exist any more") % {"worker": _worker(message)}
        words = {"worker": _worker(message), "deadline": time_text(message.session.deadline)}
        if message.session.deadline < datetime.now(UTC):
            return _("%(worker)s, but its deadline has passed: %(deadline)s") % words
        words["left"] = LOCAL.duration((message.session.deadline - datetime.now(UTC)).total_seconds())
        text = _("%(worker)s until %(deadline)s (%(left)s left, renewed while the worker lives)") % words
        for run in running_in(message.session.running):
            if run.receipt == (message.pk, message.claim):
                words |= {"handler": run.handler, "time": LOCAL.duration(run.seconds)}
                return text + "; " + _("%(handler)s handles it for %(time)s") % words
        return text

    @admin.display(description=gettext_lazy("declined by"))
    def declined_by(self, message: Any) -> str:
        return str(message.declined_by)

    @admin.display(description=gettext_lazy("acknowledged"))
    def acknowledged(self, message: Any) -> str:
        return str(message.acknowledged)

    @admin.display(description=gettext_lazy("failed attempts"))
    def failed(self, message: Message) -> str:
        return descriptions.of_row(message).attempts

    @admin.display(description=gettext_lazy("content"))
    def content(self, message: Message) -> str:
        """Return the type of the message, or the handlers of its queue, and a preview of its arguments or body."""
        found = descriptions.of_row(message)
        name = message.type or found.handlers
        preview = format_html(
            '<span class="quiet mq-clip mq-two" title="{}">{}</span>', found.preview, found.preview
        )
        keys = format_html_join("", ' <a class="mq-chip" href="{1}"><bdi>{0}</bdi></a>', found.keys)
        return format_html("{}{}{}", columns.clip(name), preview, keys)

    @admin.display(description=gettext_lazy("last error"), empty_value="-")
    def last_error(self, message: Message) -> str | None:
        last = failures.of_row(message).last
        return last and failures.words(*last)

    @admin.display(description=gettext_lazy("last error"), empty_value="-")
    def errors(self, message: Message) -> str | None:
        """Return the last error, and the first if it was a different one."""
        first, last = failures.of_row(message).first, failures.of_row(message).last
        if first is None or last is None or first[:2] == last[:2]:
            return last and failures.words(*last)
        return format_html("{}<br>{} {}", failures.words(*last), _("first:"), failures.words(*first))

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's signature
        return self.may(request, "add_message")

    def add_view(
        self,
        request: HttpRequest,
        form_url: str = "",  # noqa: ARG002 - Django's signature
        extra_context: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return publish_form.page(self, request)

    def details(self, request: HttpRequest, row: Message) -> dict[str, Any]:
        attempts = failures.of_message(row.message_id, row.correlation_id)
        add = f"{self.list_address(Message)}add/?{publish_form.COPY}={row.pk}"
        headers = payload.raw(row, "headers")
        return (
            life.details(self, request, row, attempts)
            | self.buttons(self._buttons_for(request, row))
            | {
                "copy_address": add if self.has_add_permission(request) else "",
                "headers": payload.headers(headers, row.queue.name),
                "properties": payload.headers(payload.raw(row, "properties"), row.queue.name),
                "body": payload.body(row.body, row.content_type, row.content_encoding, queue=row.queue.name),
                "attempts": attempts,
                "panels": [*retries.of_message(row), *panels_of(request, row)],
                "waits": self._waits(request, row),
            }
        )

    def _waits(self, request: HttpRequest, message: Message) -> dict[str, str] | None:
        """Return what limits the queue of a message that waits for a worker, if the user may view queues."""
        waits = message.state in {Message.Status.READY, Message.Status.PARKED} and not message.is_dead_letter
        return now.limiting(self, request, message.queue_id) if waits and self.may(request, "view_queue") else None

    def _buttons_for(self, request: HttpRequest, message: Message) -> list[tuple[str, str]]:
        """Return the actions that fit the message and that the user has permission for."""
        fit = (action for action in ACTIONS if action.fits(message))
        actions = [(action.name, str(action.label)) for action in fit if self.may_do(request, action)]
        return [*actions, (download_json.__name__, _("Download"))]


def _worker(message: Message) -> str:
    if message.session is None:
        return _("session %(id)s") % {"id": message.session_id}
    return message.session.name


def _retrying(message: Message) -> str:
    """Return how many attempts have failed, of how many, and when the next one is."""
    failed = columns.attempts(message.attempts, retries.most_attempts(message.queue))
    next_time = columns.ago(message.deliver_at) if message.deliver_at else "-"
    return format_html(_("retrying: {attempts} failed, next {time}"), attempts=failed, time=next_time)


def _shows_what_runs(address: Mapping[str, str]) -> bool:
    return address.get("state") == str(Message.Status.CLAIMED.value)


def _shows_dead_letters(address: Mapping[str, str]) -> bool:
    return address.get("state") in LETTER_STATES
