"""The list of results, the page of one, and the action that forgets some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.acts.command_lines import line
from django_mq.admin import columns
from django_mq.admin.actions import Action, ActionAdmin, GoneError, Preview
from django_mq.admin.addresses import message_address
from django_mq.admin.filters import SAMPLE, BeforeFilter, Filter, SpanFilter
from django_mq.admin.forms import Confirmation
from django_mq.admin.paginator import BoundedPaginator
from django_mq.admin.table import ReadOnly, alias
from django_mq.diagnosis.language import LOCAL, exact
from django_mq.diagnosis.messages import payload
from django_mq.diagnosis.messages.criteria import put_together
from django_mq.diagnosis.messages.terms import newest_of
from django_mq.results import results, shown
from django_mq.results.models import StoredResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.contrib.admin import ModelAdmin
    from django.db.models import QuerySet
    from django.http import HttpRequest

#: The most rows that a search finds, and that an action forgets at once.
MOST_FOUND = 1_000
MOST_FORGOTTEN = 500
#: Celery's states. A project may have others.
STATES = ("SUCCESS", "FAILURE", "REVOKED", "RETRY", "STARTED")
#: The states to look at.
BAD = frozenset({"FAILURE", "REVOKED"})


def _forget(row: StoredResult, _answers: Mapping[str, Any]) -> str:
    words = {"id": row.task_id}
    if not results.forget(row.task_id, using=alias()):
        raise GoneError(_("The result of task %(id)s is gone already.") % words)
    return _("The result of task %(id)s is forgotten.") % words


FORGET = Action(
    name="forget",
    permission="forget_storedresult",
    label=gettext_lazy("Forget"),
    run=_forget,
    command=lambda row, _answers: line("mq_results", names=["forget", row.task_id]),
    question=Confirmation,
    warning=gettext_lazy(
        "Programs that wait for such a result wait until they time out. Tasks and messages stay as they are, and "
        "chords count their members all the same."
    ),
    harmful=True,
)


class StoredFilter(Filter):
    """A column of the results; its values in the newest of them are offered."""

    def found(self, model: type[Any]) -> Iterable[str]:
        newest = model.objects.using(alias()).order_by("-pk")
        return newest.values_list(str(self.parameter_name), flat=True)[:SAMPLE]  # type: ignore[no-any-return] # of any model


class ResultStateFilter(StoredFilter):
    title, parameter_name = gettext_lazy("state"), "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[tuple[Any, Any]]:
        own = [pair for pair in super().lookups(request, model_admin) if pair[0] not in STATES]
        return [*((state, state) for state in STATES), *own]


class TaskNameFilter(StoredFilter):
    """The name of the task, which results have with ``result_extended``."""

    title, parameter_name = gettext_lazy("task"), "name"


class ResultQueueFilter(StoredFilter):
    """The queue, which results have with ``result_extended``."""

    title, parameter_name = gettext_lazy("queue"), "queue"


class DoneFilter(SpanFilter):
    title, field = gettext_lazy("time finished"), "done_at"


class StoredResultAdmin(ReadOnly, ActionAdmin):
    """The results of Celery's tasks, the newest first. A task has one, also if it is retried."""

    paginator = BoundedPaginator
    late = list(shown.LONG)
    actions = [FORGET]
    list_display = ["task", "state", "queue_shown", "returned", "took", "finished"]
    list_filter = [ResultStateFilter, TaskNameFilter, ResultQueueFilter, DoneFilter, BeforeFilter]
    search_fields = ["task_id"]
    search_help_text = gettext_lazy(
        "Search for the id of a task. Among the newest 100,000 rows, also for a part of its name, which results "
        "have with result_extended."
    )
    sortable_by = ()
    ordering = ["-id"]
    fieldsets = [
        (None, {"fields": ["task_id", "task", "state", "queue_shown", "message_link"]}),
        (None, {"fields": [("worker", "retries"), "parent_link", "group_link"]}),
        (gettext_lazy("Times"), {"fields": [("done_at", "took"), "expires_at"]}),
    ]
    change_form_template = "admin/django_mq/storedresult/change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return shown.with_message(super().get_queryset(request).defer(*shown.LONG))

    def meant_by(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        named = newest_of(queryset).exclude(name="").filter(name__icontains=term)
        parts = [rows.order_by().values_list("pk", flat=True) for rows in (queryset.filter(task_id=term), named)]
        return queryset.filter(pk__in=list(put_together(parts)[:MOST_FOUND]))

    def chosen(self, action: Action, request: HttpRequest, queryset: QuerySet[Any]) -> Any:  # noqa: ARG002
        return list(queryset[:MOST_FORGOTTEN])

    def preview(self, action: Action, chosen: Sequence[Any]) -> Preview:  # noqa: ARG002 - there is one action
        more = ""
        if len(chosen) == MOST_FORGOTTEN:
            more = _("These are the first %(number)s.") % {"number": exact(MOST_FORGOTTEN)}
        return Preview([_("task"), _("task id"), _("state")], [_words(row) for row in chosen], more)

    @admin.display(description=gettext_lazy("task"))
    def task(self, row: Any) -> str:
        name = shown.task_of(row)
        return columns.clip(name) if name else format_html('<span class="mq-id">{}</span>', row.task_id)

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: Any) -> str:
        return format_html('<span class="mq-warn">{}</span>', row.status) if row.status in BAD else row.status

    @admin.display(description=gettext_lazy("queue"), empty_value="-")
    def queue_shown(self, row: Any) -> str | None:
        return columns.clip(shown.queue_of(row)) or None

    @admin.display(description=gettext_lazy("result"))
    def returned(self, row: Any) -> str:
        if not row.head:
            return "-"
        words = shown.line(row)
        if len(words) <= columns.SHORT:
            return words
        return format_html('<span class="mq-clip" title="{}">{}</span>', words, words)

    @admin.display(description=gettext_lazy("held"))
    def took(self, row: Any) -> str:
        span = shown.held(row)
        return "-" if span is None else LOCAL.precise(span.total_seconds())

    @admin.display(description=gettext_lazy("finished"))
    def finished(self, row: Any) -> str:
        return "-" if row.done_at is None else columns.ago(row.done_at)

    @admin.display(description=gettext_lazy("message"))
    def message_link(self, row: Any) -> str:
        address = message_address(self, row.message_id)
        return format_html('<a href="{}">{}</a>', address, row.message_id) if address else "-"

    @admin.display(description=gettext_lazy("parent"))
    def parent_link(self, row: Any) -> str:
        if not row.parent_id:
            return "-"
        found = StoredResult.objects.using(alias()).filter(task_id=row.parent_id).values_list("pk", flat=True)
        pk = found.first()
        if pk is None:
            return str(row.parent_id)
        return format_html('<a href="{}">{}</a>', self.page_address(StoredResult, pk), row.parent_id)

    @admin.display(description=gettext_lazy("group"))
    def group_link(self, row: Any) -> str:
        return row.group_id or "-"

    def details(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        arguments = [(_("Arguments"), row.args), (_("Named arguments"), row.kwargs)]
        offered = [(FORGET.name, str(FORGET.label))] if self.may_do(request, FORGET) else []
        return {
            "returned": shown.value(row, row.result) if row.result else None,
            "traceback": payload.text(row.traceback) if row.traceback else None,
            "arguments": [(heading, shown.value(row, text)) for heading, text in arguments if text],
        } | self.buttons(offered)


def _words(row: Any) -> tuple[str, str, str]:
    return shown.task_of(row) or "-", row.task_id, row.status
