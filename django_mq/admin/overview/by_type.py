"""What runs and what fails, by type: waits, runs and exceptions, from the newest rows of the history."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.http import JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from django_mq.admin.columns import ago, breakable
from django_mq.admin.table import alias
from django_mq.diagnosis.language import LOCAL, time_text
from django_mq.diagnosis.state.by_type import failures, runs
from django_mq.models import Attempt, History, Message
from django_mq.rollups.series import SHORT_SPANS

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin
    from django_mq.diagnosis.state.by_type import Failures, Runs, Sample
    from django_mq.rollups.series import Span

#: The most rows of each table. The JSON view has all.
SHOWN = 100
TIMES = ("wait_p50", "wait_p95", "wait_p99", "held_p50", "held_p95", "held_p99", "held_seconds")


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show what runs, and, to users with the permission to view attempts, what fails."""
    span, queue, ran, failed = _looked(admin, request)
    return admin.page(
        request,
        "by_type",
        _("What runs and fails"),
        span=span,
        spans=[(name, name == span.name) for name in SHORT_SPANS],
        queue=queue,
        ran=_shown(ran, [_run(admin, row) for row in ran.rows[:SHOWN]]),
        failed=failed and _shown(failed, [_failure(admin, row) for row in failed.rows[:SHOWN]]),
        overview=reverse(f"{admin.admin_site.name}:django_mq_queue_overview"),
        json=reverse(f"{admin.admin_site.name}:django_mq_history_types_json"),
    )


def as_json(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    span, _queue, ran, failed = _looked(admin, request)
    return JsonResponse({"span": span.name, "runs": asdict(ran), "failures": failed and asdict(failed)})


def _looked(admin: TableAdmin, request: HttpRequest) -> tuple[Span, str, Sample[Runs], Sample[Failures] | None]:
    span = SHORT_SPANS.get(request.GET.get("span", ""), SHORT_SPANS["hour"])
    queue = request.GET.get("queue", "")
    queues = [queue] if queue else []
    failed = failures(span, queues=queues, using=alias()) if admin.may(request, "view_attempt") else None
    return span, queue, runs(span, queues=queues, using=alias()), failed


def _run(admin: TableAdmin, row: Runs) -> dict[str, Any]:
    return {
        "row": row,
        "type": breakable(row.type or "-"),
        "times": [_seconds(getattr(row, name)) for name in TIMES],
        "history": admin.list_address(History, **_named(row)),
        "messages": admin.list_address(Message, **_named(row)),
    }


def _failure(admin: TableAdmin, row: Failures) -> dict[str, Any]:
    return {
        "row": row,
        "error": breakable(row.error),
        "type": breakable(row.type or "-"),
        "last": ago(row.last),
        "attempts": admin.list_address(Attempt, error=row.error, **_named(row)),
        "messages": admin.list_address(Message, error=row.error, queue=row.queue),
    }


def _named(row: Runs | Failures) -> dict[str, str]:
    """Return the filters for the queue and the type of a row."""
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
    return LOCAL.precise(value)
