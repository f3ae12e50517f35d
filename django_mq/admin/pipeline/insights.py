"""Insights into the past of the queues, which ``mq_spark insights`` has computed."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, JsonResponse
from django.utils.translation import gettext as _

from django_mq.admin.overview.charts import Chart, Line, draw
from django_mq.admin.paginator import NUL
from django_mq.admin.pipeline.admin import SparkPages
from django_mq.admin.table import ReadOnly, TableAdmin, alias
from django_mq.diagnosis.language import LOCAL, time_text
from django_mq.insights import reading
from django_mq.insights.reading import EXPORTS, QueueSummary, write_csv
from django_mq.models import InsightHour

if TYPE_CHECKING:
    from django.http import HttpRequest

#: The spans in days.
SPANS = (1, 7, 28)
HOUR = timedelta(hours=1)


class InsightAdmin(SparkPages, ReadOnly, TableAdmin):
    """All queues in a table, or one queue with charts; also as JSON and CSV."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        days = self._days(request)
        since, until = span(days)
        queue = request.GET.get("queue", "").replace(NUL, "") or None
        if request.GET.get("format") in ("json", "csv"):
            return export(request, queue, since, until)
        shown = (
            of_queue(queue, since, until)
            if queue
            else {"summaries": [*map(_in_words, reading.summaries(alias(), since=since, until=until))]}
        )
        return self.page(
            request,
            "insights",
            queue or _("Insights"),
            days=days,
            spans=SPANS,
            queue=queue,
            exports=[*EXPORTS],
            **shown | (extra_context or {}),
        )

    @staticmethod
    def _days(request: HttpRequest) -> int:
        given = request.GET.get("days", "")
        return int(given) if given in {str(days) for days in SPANS} else SPANS[1]


def span(days: int) -> tuple[datetime, datetime]:
    """Return the begin of the span and the end of the current hour."""
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + HOUR
    return until - timedelta(days=days), until


def _in_words(summary: QueueSummary) -> dict[str, Any]:
    """Return the figures of a queue, with its times as every page has them."""
    figures = asdict(summary)
    times = {name: value for name, value in figures.items() if name.startswith(("wait_p", "run_p"))}
    shown = {name: "-" if value is None else LOCAL.precise(value) for name, value in times.items()}
    return figures | shown


def of_queue(queue: str, since: datetime, until: datetime) -> dict[str, Any]:
    rows = reading.hours(alias(), since=since, until=until, queue=queue)
    found = [row for row in rows if row.level == InsightHour.ALL_LEVELS]
    summary = next(iter(reading.summaries(alias(), since=since, until=until, queue=queue)), None)
    busiest = [datetime.fromisoformat(hour) for hour in summary.busiest] if summary else []
    return {
        "summary": summary and _in_words(summary),
        "busiest": [time_text(hour) for hour in busiest],
        "charts": charts(found, since, until) if found else [],
        "causes": reading.causes(alias(), queue, since=since.date(), until=until.date())[:20],
    }


def charts(rows: list[InsightHour], since: datetime, until: datetime) -> list[Chart]:
    hours = [since + number * HOUR for number in range(round((until - since) / HOUR))]
    known = {row.hour: row for row in rows}
    labels = [time_text(hour) for hour in hours]

    def values(name: str, otherwise: float | None) -> list[float | None]:
        return [getattr(known[hour], name) if hour in known else otherwise for hour in hours]

    #: Title, unit, the value of an hour without figures, and the lines: name, label, figure.
    pictures: list[tuple[str, str, float | None, list[tuple[str, str, str]]]] = [
        (_("Traffic"), "/h", 0, [("arrived", _("arrived"), "arrivals"), ("accepted", _("done"), "completions")]),
        (_("Depth"), "", 0, [("p95", _("greatest"), "depth_max"), ("p50", _("mean"), "depth_mean")]),
        (_("Wait"), "s", None, [("p95", _("95 %"), "wait_p95"), ("p50", _("median"), "wait_p50")]),
        (_("Held"), "s", None, [("p95", _("95 %"), "run_p95"), ("p50", _("median"), "run_p50")]),
        (
            _("Problems"),
            "/h",
            0,
            [
                ("failed", _("too late"), "slo_misses"),
                ("p95", _("inverted"), "inversions"),
                ("p50", _("starved"), "starved"),
            ],
        ),
    ]
    return [
        draw(
            title,
            [Line(name, label, values(figure, otherwise)) for name, label, figure in lines],
            unit=unit,
            begins=labels[0],
            ends=labels[-1],
        )
        for title, unit, otherwise, lines in pictures
    ]


def export(request: HttpRequest, queue: str | None, since: datetime, until: datetime) -> HttpResponse:
    of = request.GET.get("of") if request.GET.get("of") in EXPORTS else "hours"
    fields, read = EXPORTS[of or "hours"]
    rows = read(alias(), since, until, queue)
    if request.GET["format"] == "json":
        return JsonResponse(rows, safe=False)
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="insights-{of}.csv"'
    write_csv(answer, fields, rows)
    return answer
