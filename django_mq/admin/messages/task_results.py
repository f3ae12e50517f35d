"""Results of Django's tasks."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

import json
import re
from base64 import b64decode
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.db.models.functions import Substr
from django.utils.translation import gettext_lazy as _

from django_mq.admin import columns
from django_mq.admin.filters import QueueNameFilter
from django_mq.admin.messages import failures
from django_mq.admin.paginator import UUID_FORM, BoundedPaginator
from django_mq.admin.table import ReadOnly, TableAdmin
from django_mq.delivery.codecs import key_of
from django_mq.diagnosis.language import LOCAL
from django_mq.diagnosis.messages import payload

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.models import TaskResult

#: Characters of a record that a list reads. They contain the name of the task.
HEAD = 500
#: The name of the task in a record.
NAME = re.compile(r'"task":\s*("(?:[^"\\]|\\.)*")')


class TaskResultAdmin(ReadOnly, TableAdmin):
    """Tasks that have been tried, the latest first. Tasks that have not are in the list of messages."""

    paginator = BoundedPaginator
    id_form = UUID_FORM
    late = ["record"]
    list_display = ["short_id", "task", "successful", "queue_shown", "took", "finished"]
    list_filter = ["successful", QueueNameFilter]
    search_fields = ["message_id"]
    search_help_text = _("The whole id of a result, which is the id of its message.")
    sortable_by = ()
    # Nearly the order of their ends, and it has an index.
    ordering = ["-expires_at"]
    fieldsets = [
        (None, {"fields": ["message_id", "task", "successful", "queue_name", "workers"]}),
        (_("Times"), {"fields": [("started_at", "last_attempted_at", "finished_at"), ("took", "expires_at")]}),
    ]
    change_form_template = "admin/django_mq/task_result/change_form.html"

    short_id = columns.id_column
    queue_shown = columns.name_column("queue_name", _("queue"))
    finished = columns.ago_column("finished_at", _("finished"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[TaskResult]:
        results: QuerySet[TaskResult] = super().get_queryset(request)
        return results.defer("record").annotate(head=Substr("record", 1, HEAD))

    def meant_by(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        try:
            return queryset.filter(pk=UUID(term))
        except ValueError:
            return queryset.none()

    @admin.display(description=_("task"))
    def task(self, result: Any) -> str:
        found = NAME.search(result.head)
        try:
            return columns.breakable(payload.sendable(json.loads(found[1]))) if found else "-"
        except ValueError:
            return "-"

    @admin.display(description=_("workers"))
    def workers(self, result: TaskResult) -> str:
        names = _read(result.record).get("worker_ids")
        return payload.sendable(", ".join(map(str, names))) if isinstance(names, list) and names else "-"

    @admin.display(description=_("took"))
    def took(self, result: TaskResult) -> str:
        if result.last_attempted_at is None:
            return "-"  # removed before the first attempt
        return LOCAL.precise((result.finished_at - result.last_attempted_at).total_seconds())

    def details(self, request: HttpRequest, row: TaskResult) -> dict[str, Any]:
        record, queue = _read(row.record), row.queue_name
        envelope = record.get("envelope")
        known = envelope if isinstance(envelope, dict) else {}
        arguments = {name: known.get(name) for name in ("args", "kwargs")}
        hidden = _hidden(record)
        return {
            "arguments": hidden or _shown(arguments, queue),
            "value": (hidden or _shown(record.get("value"), queue)) if row.successful else None,
            "attempts": failures.of_message(row.message_id, None),
        }


def _read(record: str) -> dict[str, Any]:
    """Return the decoded record; empty if it is invalid."""
    try:
        found = json.loads(record)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _hidden(record: dict[str, Any]) -> payload.Shown | None:
    """Return what to show of a record that is encrypted; None if it is not."""
    try:
        stored = b64decode(str(record.get("encoded", "")))
    except ValueError:
        return None
    return payload.body(stored, queue="") if key_of(stored) is not None else None


def _shown(value: Any, queue: str) -> payload.Shown:
    return payload.body(json.dumps(value).encode(), "application/json", queue=queue)
