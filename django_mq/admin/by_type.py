"""What runs and what fails, by type: how long the tasks of each kind wait and run, and which exceptions end them.

Beside the overview, which knows queues only; without Spark, from the newest rows of the history.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import JsonResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _

from django_mq.admin.charts import figure
from django_mq.admin.columns import time_text
from django_mq.admin.table import TableAdmin, alias
from django_mq.diagnosis.by_type import failures, runs
from django_mq.diagnosis.series import SPANS
from django_mq.models import Attempt, History, Message

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from django_mq.diagnosis.by_type import Failures, Runs, Sample
    from django_mq.diagnosis.series import Span

#: Rows of each table that the page shows; JSON has all.
SHOWN = 100
TIMES = ("wait_p50", "wait_p95", "wait_p99", "run_p50", "run_p95", "run_p99", "run_seconds")


class ByType(TableAdmin):
    """Mixed into the admin of the history: the page and its JSON twin."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        own = [
            path("types/", view(self.types_view), name="django_mq_history_types"),
            path("types.json", view(self.types_json_view), name="django_mq_history_types_json"),
        ]
        return own + super().get_urls()

    def types_view(self, request: HttpRequest) -> HttpResponse:
        """Show what runs and fails. Needs permission to view the history; what fails, to view failed attempts."""
        span, queue, ran, failed = self._looked(request)
        request.current_app = self.admin_site.name
        page = {
            **self.admin_site.each_context(request),
            "title": _("What runs and fails"),
            "opts": self.opts,
            "media": self.media,
            "span": span,
            "spans": [(name, name == span.name) for name in SPANS],
            "queue": queue,
            "ran": _shown(ran, [self._run(row) for row in ran.rows[:SHOWN]]),
            "failed": failed and _shown(failed, [self._failure(row) for row in failed.rows[:SHOWN]]),
            "overview": reverse(f"{self.admin_site.name}:django_mq_queue_overview"),
            "json": reverse(f"{self.admin_site.name}:django_mq_history_types_json"),
        }
        return TemplateResponse(request, "admin/django_mq/by_type.html", page)

    def types_json_view(self, request: HttpRequest) -> HttpResponse:
        """Return the figures of the page, and all of them, as JSON."""
        span, _queue, ran, failed = self._looked(request)
        return JsonResponse({"span": span.name, "runs": asdict(ran), "failures": failed and asdict(failed)})

    def _looked(self, request: HttpRequest) -> tuple[Span, str, Sample[Runs], Sample[Failures] | None]:
        if not self.has_view_permission(request):
            raise PermissionDenied
        span = SPANS.get(request.GET.get("span", ""), SPANS["hour"])
        queue = request.GET.get("queue", "")
        queues = [queue] if queue else []
        failed = failures(span, queues=queues, using=alias()) if self.may(request, "view_attempt") else None
        return span, queue, runs(span, queues=queues, using=alias()), failed

    def _run(self, row: Runs) -> dict[str, Any]:
        named = _named(row)
        return {
            "row": row,
            "times": [_seconds(getattr(row, name)) for name in TIMES],
            "history": self.list_address(History, **named),
            "messages": self.list_address(Message, **named),
        }

    def _failure(self, row: Failures) -> dict[str, Any]:
        return {
            "row": row,
            "last": time_text(row.last),
            "attempts": self.list_address(Attempt, error=row.error, **_named(row)),
            "messages": self.list_address(Message, error=row.error, queue=row.queue),
        }


def _named(row: Runs | Failures) -> dict[str, str]:
    """Return the filters that find its like; without a type only its queue can be said."""
    return {"queue": row.queue} | ({"type": row.type} if row.type else {})


def _shown(sample: Sample[Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rows": rows,
        "more": len(sample.rows) - len(rows),
        "read": sample.read,
        "cut": sample.cut,
        "since": time_text(sample.since),
    }


def _seconds(value: float | None) -> str:
    return "-" if value is None else figure(value, "s")
