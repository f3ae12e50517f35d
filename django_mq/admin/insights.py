"""Insights: what the queues' past says, as far as ``mq_spark insights`` has computed it. No page starts Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from django_mq.admin import columns
from django_mq.admin.addresses import NUL
from django_mq.admin.charts import Chart, Line, draw
from django_mq.admin.table import ReadOnly, TableAdmin, alias
from django_mq.insights import reading
from django_mq.insights.exporting import EXPORTS, write_csv
from django_mq.models import InsightHour

if TYPE_CHECKING:
    from django.http import HttpRequest

#: Spans that can be chosen, in days.
SPANS = (1, 7, 28)
HOUR = timedelta(hours=1)


class InsightAdmin(ReadOnly, TableAdmin):
    """All queues in a table, or one queue with its charts; both also as JSON and CSV."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the table, or the queue that is named."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        days = self._days(request)
        since, until = span(days)
        queue = request.GET.get("queue", "").replace(NUL, "") or None
        if request.GET.get("format") in ("json", "csv"):
            return export(request, queue, since, until)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": queue or _("Insights"),
            "days": days,
            "spans": SPANS,
            "queue": queue,
            "exports": [*EXPORTS],
            "media": self.media,
            **(of_queue(queue, since, until) if queue else of_all(since, until)),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/django_mq/insights.html", context)

    @staticmethod
    def _days(request: HttpRequest) -> int:
        given = request.GET.get("days", "")
        return int(given) if given in {str(days) for days in SPANS} else SPANS[1]


def span(days: int) -> tuple[datetime, datetime]:
    """Return the last hours, up to the end of this one."""
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + HOUR
    return until - timedelta(days=days), until


def of_all(since: datetime, until: datetime) -> dict[str, Any]:
    """Return what the table shows."""
    return {"summaries": reading.summaries(alias(), since=since, until=until)}


def of_queue(queue: str, since: datetime, until: datetime) -> dict[str, Any]:
    """Return what the page of one queue shows."""
    rows = reading.hours(alias(), since=since, until=until, queue=queue)
    found = [row for row in rows if row.level == InsightHour.ALL_LEVELS]
    summary = next(iter(reading.summaries(alias(), since=since, until=until, queue=queue)), None)
    busiest = [datetime.fromisoformat(hour) for hour in summary.busiest] if summary else []
    return {
        "summary": summary,
        "busiest": [columns.time_text(hour) for hour in busiest],
        "charts": charts(found, since, until) if found else [],
        "causes": reading.causes(alias(), queue, since=since.date(), until=until.date())[:20],
    }


def charts(rows: list[InsightHour], since: datetime, until: datetime) -> list[Chart]:
    """Return the queue's charts, hour by hour."""
    hours = [since + number * HOUR for number in range(round((until - since) / HOUR))]
    known = {row.hour: row for row in rows}
    labels = [hour.strftime("%Y-%m-%d %H:00 UTC") for hour in hours]

    def values(name: str, otherwise: float | None = 0) -> list[float | None]:
        return [getattr(known[hour], name) if hour in known else otherwise for hour in hours]

    def picture(title: str, unit: str, *lines: Line) -> Chart:
        return draw(title, lines, unit=unit, begins=labels[0], ends=labels[-1])

    return [
        picture(
            _("Traffic"),
            "/h",
            Line("arrived", _("arrived"), values("arrivals")),
            Line("accepted", _("done"), values("completions")),
        ),
        picture(
            _("Depth"),
            "",
            Line("p95", _("greatest"), values("depth_max")),
            Line("p50", _("mean"), values("depth_mean")),
        ),
        picture(
            _("Wait"),
            "s",
            Line("p95", _("95 %"), values("wait_p95", None)),
            Line("p50", _("median"), values("wait_p50", None)),
        ),
        picture(
            _("Work"),
            "s",
            Line("p95", _("95 %"), values("run_p95", None)),
            Line("p50", _("median"), values("run_p50", None)),
        ),
        picture(
            _("Trouble"),
            "/h",
            Line("failed", _("too late"), values("slo_misses")),
            Line("p95", _("inverted"), values("inversions")),
            Line("p50", _("starved"), values("starved")),
        ),
    ]


def export(request: HttpRequest, queue: str | None, since: datetime, until: datetime) -> HttpResponse:
    """Return the hours, the queues or the causes as a file."""
    of = request.GET.get("of") if request.GET.get("of") in EXPORTS else "hours"
    fields, read = EXPORTS[of or "hours"]
    rows = read(alias(), since, until, queue)
    if request.GET["format"] == "json":
        return JsonResponse(rows, safe=False)
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="insights-{of}.csv"'
    write_csv(answer, fields, rows)
    return answer
