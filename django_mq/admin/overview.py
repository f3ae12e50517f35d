"""The overview: every queue and the last hour on one page, and the same figures as JSON.

A handful of statements, whatever the queues hold: bounded counts, the worker sessions, and
the summed-up minutes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import JsonResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from django_mq.admin import depth
from django_mq.admin.charts import Chart, Line, draw
from django_mq.admin.durations import duration
from django_mq.admin.table import TableAdmin, alias
from django_mq.admin.troubles import Teller, shown, twin
from django_mq.diagnosis.fleet import Use, fleet, slots_in_use, slots_of_queues
from django_mq.diagnosis.overview import overview
from django_mq.diagnosis.series import SPANS, recent_rates, series
from django_mq.diagnosis.troubles import LATE_SECONDS, awake_of, credit_of, troubles
from django_mq.models import History, Message, Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest, HttpResponse

    from django_mq.diagnosis.fleet import Worker
    from django_mq.diagnosis.overview import QueueState
    from django_mq.diagnosis.series import Point, Rates, Recent

#: Queues in the page's table, those first that need a look; the list of queues has all.
MOST_ROWS = 250

READY, SCHEDULED, CLAIMED, DEAD = (
    Message.Status.READY,
    Message.Status.SCHEDULED,
    Message.Status.CLAIMED,
    Message.Status.DEAD,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One queue as the overview shows it."""

    state: QueueState
    #: None where no minute has been summed up lately.
    rates: Rates | None
    #: Slots of the live workers that take from the queue, and credit of their consumers.
    slots: Use
    credit: Use
    #: Live workers that take from it, and have not been told to be quiet or to stop.
    awake: int = 0

    @property
    def uses(self) -> tuple[Use, Use]:
        """Return slots and credit, in the order of the columns."""
        return self.slots, self.credit

    @property
    def waits(self) -> bool:
        """Whether there is something to be delivered now."""
        return self.state.oldest_ready_seconds is not None

    @property
    def is_late(self) -> bool:
        return self.state.waited_seconds > LATE_SECONDS and not self.state.paused

    @property
    def age(self) -> str:
        seconds = self.state.oldest_ready_seconds
        return "-" if seconds is None else duration(seconds)

    @property
    def counts(self) -> list[tuple[int, str, bool]]:
        """Return (state, count in words, whether it is trouble), in the order of the columns."""
        state = self.state
        numbers = {READY: state.ready, SCHEDULED: state.scheduled, CLAIMED: state.claimed, DEAD: state.dead}
        trouble = {DEAD, READY} if state.rests else {DEAD}
        return [(key.value, depth.shown(number), key in trouble and number > 0) for key, number in numbers.items()]


class Overview(TableAdmin):
    """Mixed into the queues' admin: the page, its JSON twin, and the part of it that refreshes."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        own = [
            path("overview/", view(self.overview_view), name="django_mq_queue_overview"),
            path("overview.json", view(self.overview_json_view), name="django_mq_queue_overview_json"),
        ]
        return own + super().get_urls()

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """Show the overview; ``?part=1`` only what changes. Needs permission to view queues."""
        context = self._figures(request)
        request.current_app = self.admin_site.name
        if "part" in request.GET:
            return TemplateResponse(request, "admin/django_mq/overview/figures.html", context)
        page = {
            **self.admin_site.each_context(request),
            **context,
            "title": _("Overview"),
            "opts": self.opts,
            "media": self.media + forms.Media(js=["django_mq/overview.js"]),
        }
        return TemplateResponse(request, "admin/django_mq/overview/page.html", page)

    def overview_json_view(self, request: HttpRequest) -> HttpResponse:
        """Return the figures of the page as JSON."""
        figures = self._figures(request)
        past = figures["past"]
        return JsonResponse(
            {
                "troubles": [twin(trouble) for trouble in figures["all_troubles"]],
                "queues": [_object(row) for row in figures["rows"]],
                "workers": {
                    "alive": figures["alive"],
                    "stale": figures["stale"],
                    "slots_busy": figures["slots"].used,
                    "slots": figures["slots"].of,
                },
                "span": figures["span"].name,
                "known_until": past.known_until,
                "points": [asdict(point) for point in past.points],
            }
        )

    def _figures(self, request: HttpRequest) -> dict[str, Any]:
        if not self.has_view_permission(request):
            raise PermissionDenied
        span = SPANS.get(request.GET.get("span", ""), SPANS["hour"])
        states = overview(using=alias())
        chosen = request.GET.get("queue", "")
        queue = chosen if chosen in {state.name for state in states} else None
        workers = fleet(using=alias())
        past = series(span, queue=queue, using=alias())
        rates = recent_rates(using=alias())
        found, teller = troubles(states, rates.rates, workers), Teller(self, request)
        table = rows(states, rates, workers)
        return {
            "rows": table,
            # Whoever has thousands of queues would wait a second for all of them.
            "shown_rows": table[:MOST_ROWS] + [row for row in table[MOST_ROWS:] if row.state.name == queue],
            "all_troubles": found,
            "troubles": [teller.told(trouble) for trouble in shown(found)],
            "more_troubles": len(found) - len(shown(found)),
            "alive": sum(not worker.stale for worker in workers),
            "stale": sum(worker.stale for worker in workers),
            "slots": slots_in_use(workers),
            "span": span,
            "spans": [(name, name == span.name) for name in SPANS],
            "queue": queue,
            "past": past,
            "charts": charts(past.points),
            "addresses": {
                "messages": self.list_address(Message),
                "queues": self.list_address(Queue),
                "overview": f"{self.list_address(Queue)}overview/",
                "types": f"{self.list_address(History)}types/",
                "json": f"{self.list_address(Queue)}overview.json",
            },
        }


def _object(row: Row) -> dict[str, Any]:
    rates = None if row.rates is None else asdict(row.rates)
    slots = {"slots_busy": row.slots.used, "slots": row.slots.of}
    credit = {"credit_used": row.credit.used, "credit_limit": row.credit.of}
    return {**asdict(row.state), "rates": rates, **slots, **credit}


def rows(states: Sequence[QueueState], rates: Recent, workers: Sequence[Worker]) -> list[Row]:
    """Put the figures of each queue side by side; what needs a look stands first."""
    credit, slots, awake = credit_of(workers), slots_of_queues(workers), awake_of(workers)
    found = [
        Row(
            state=state,
            rates=rates.of(state.name),
            slots=slots[state.name],
            credit=credit[state.name],
            awake=awake[state.name],
        )
        for state in states
    ]
    return sorted(found, key=lambda row: (-row.state.waited_seconds, -row.state.dead_letters, row.state.name))


def charts(points: Sequence[Point]) -> list[Chart]:
    """Draw rates, waits and runs."""
    ends = {"begins": _moment(points[0]), "ends": _moment(points[-1])}
    rates = [
        Line("arrived", _("published"), [point.arrived for point in points], fades=True),
        Line("accepted", _("finished"), [point.accepted for point in points], fades=True),
        Line("failed", _("failed"), [point.failed for point in points], fades=True),
        Line("redelivered", _("redelivered"), [point.redelivered for point in points], fades=True),
    ]
    waits = [
        Line("p50", _("median"), [point.wait_p50 for point in points]),
        Line("p95", _("95 %"), [point.wait_p95 for point in points]),
    ]
    runs = [
        Line("p50", _("median"), [point.run_p50 for point in points]),
        Line("p95", _("95 %"), [point.run_p95 for point in points]),
    ]
    return [
        draw(_("Messages a second"), rates, unit="/s", **ends),
        draw(_("Wait from ready to claimed"), waits, unit="s", **ends),
        draw(_("Run from claimed to finished"), runs, unit="s", **ends),
    ]


def _moment(point: Point) -> str:
    return date_format(localtime(point.time), "H:i")
