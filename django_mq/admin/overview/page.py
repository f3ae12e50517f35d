"""The overview: every queue and the last hour on one page, and the same figures as JSON.

It takes a handful of statements, however many messages there are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django import forms
from django.http import JsonResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_mq.admin import columns, live
from django_mq.admin.overview.alerts import as_object, delivery_column, for_page, found_objects, shown, worst_first
from django_mq.admin.overview.charts import Axis
from django_mq.admin.overview.past import charts
from django_mq.admin.overview.snoozed import hidden, identity, with_link
from django_mq.admin.table import alias
from django_mq.diagnosis.language import LOCAL, rate
from django_mq.diagnosis.messages.indexes import RETRYING
from django_mq.diagnosis.state.acknowledged import snoozed
from django_mq.diagnosis.state.alerts import LATE_SECONDS, alerts
from django_mq.diagnosis.state.extensions import found_by_extensions
from django_mq.diagnosis.state.fleet import fleet, slots_in_use, supplies
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.unwanted import unwanted
from django_mq.models import History, InsightHour, Message, Queue, SnoozedAlert
from django_mq.rollups.series import COUNTED, SPANS, recent_rates, series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin
    from django_mq.diagnosis.state.fleet import Supply, Use, WorkerStatus
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.rollups.series import Rates, Recent, Span

#: Queues in the table of the page; the list of queues has all.
MOST_ROWS = 250

READY, SCHEDULED, CLAIMED, DEAD = (
    Message.Status.READY,
    Message.Status.SCHEDULED,
    Message.Status.CLAIMED,
    Message.Status.DEAD,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """A queue as the overview shows it."""

    state: QueueState
    #: None if no minute has been summed up lately.
    rates: Rates | None
    supply: Supply
    #: How many of its first messages no consumer wants.
    unwanted: int

    @property
    def uses(self) -> tuple[Use, Use]:
        """The slots and the credit, in the order of the columns."""
        return self.supply.slots, self.supply.credit

    @property
    def name(self) -> str:
        return columns.breakable(self.state.name)

    @property
    def delivery(self) -> str:
        return delivery_column(self.state, self.supply.awake, self.unwanted, short=True)

    @property
    def is_late(self) -> bool:
        return self.state.waited_seconds > LATE_SECONDS and not self.state.paused

    @property
    def age(self) -> str:
        return LOCAL.age(self.state.oldest_ready_seconds, is_exact=self.state.is_oldest_exact)

    @property
    def version(self) -> str:
        """Return what stands for all that the row shows, except the age."""
        state = self.state
        seconds = state.oldest_ready_seconds
        shown = replace(state, oldest_ready_seconds=None if seconds is None else float(self.is_late))
        return live.version_of(shown, self.rates, self.supply, self.unwanted)

    @property
    def flow(self) -> list[tuple[str, bool]]:
        """Each rate as text, and whether it is bad, in the order of the columns."""
        if self.rates is None:
            return [("-", False)] * len(COUNTED)
        rates = [(name, getattr(self.rates, name)) for name in COUNTED]
        return [(rate(number), name == "failed" and number > 0) for name, number in rates]

    @property
    def counts(self) -> list[tuple[int | str, str, bool]]:
        """The state, its count as text, and whether it is bad, in the order of the columns."""
        state = self.state
        numbers: dict[int | str, int] = {
            READY.value: state.ready,
            SCHEDULED.value: state.scheduled,
            RETRYING: state.retrying,
            CLAIMED.value: state.claimed,
            DEAD.value: state.dead,
        }
        bad = {DEAD.value, READY.value} if state.rests else {DEAD.value}
        bad = bad if state.new_dead_letters else set()
        cut = {RETRYING} if state.is_retrying_cut else set()
        return [
            (key, LOCAL.bounded(number, more=key in cut and number > 0), key in bad and number > 0)
            for key, number in numbers.items()
        ]


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show the overview."""
    figures = _figures(admin, request)
    media = admin.media + forms.Media(js=["django_mq/charts.js"])
    # They are in the menu only where Spark is installed, and another machine may compute them.
    may = admin.may(request, "view_insighthour")
    insights = may and InsightHour.objects.using(alias()).exists() and admin.list_address(InsightHour)
    return admin.page(request, "overview/page", _("Overview"), **figures, media=media, insights=insights)


def as_json(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Return the figures of the page as JSON."""
    figures = _figures(admin, request)
    past, slots = figures["past"], figures["slots"]
    return JsonResponse(
        {
            "alerts": figures["all_alerts"],
            "snoozed": figures["snoozed"],
            "queues": [_object(row) for row in figures["rows"]],
            "workers": {
                "alive": figures["alive"],
                "stale": figures["stale"],
                "slots_busy": slots.used,
                "slots": slots.of,
            },
            "span": figures["span"].name,
            "known_until": past.known_until,
            "points": [asdict(point) for point in past.points],
        }
    )


def _span(request: HttpRequest) -> Span:
    return SPANS.get(request.GET.get("span", ""), SPANS["hour"])


def _spans(chosen: Span) -> list[tuple[str, bool]]:
    return [(name, name == chosen.name) for name in SPANS]


def _figures(admin: TableAdmin, request: HttpRequest) -> dict[str, Any]:
    span = _span(request)
    states = overview(using=alias())
    chosen = request.GET.get("queue", "")
    queue = chosen if chosen in {state.name for state in states} else None
    workers = fleet(using=alias())
    past = series(span, queue=queue, using=alias())
    rates = recent_rates(using=alias())
    left = unwanted(workers, using=alias())
    found = alerts(states, rates.rates, workers, left)
    added = found_objects(found_by_extensions(using=alias()))
    known = snoozed(using=alias())
    asleep = hidden([*map(as_object, found), *added], known)
    found = [alert for alert in found if identity(as_object(alert)) not in known]
    added = [alert for alert in added if identity(alert) not in known]
    listed = [*(for_page(alert, admin, request) for alert in shown(found)), *added]
    may = admin.may(request, "view_history")
    messages = admin.list_address(History, queue=queue or "") if may else ""
    times = [point.time for point in past.points]
    zoom = f"{admin.list_address(Queue)}charts/?{urlencode({'queue': queue} if queue else {})}"
    axis = Axis(times, past.step, address=messages, zoom=zoom)
    table = rows(states, rates, workers, left)
    return {
        "rows": table,
        "known": live.known(request),
        # To render thousands of rows takes a second.
        "shown_rows": table[:MOST_ROWS] + [row for row in table[MOST_ROWS:] if row.state.name == queue],
        "all_alerts": worst_first([*map(as_object, found), *added]),
        "alerts": worst_first([with_link(admin, request, alert) for alert in listed]),
        "snoozed": asleep,
        "snoozed_address": admin.list_address(SnoozedAlert),
        "more_alerts": len(found) - len(shown(found)),
        "alive": sum(not worker.stale for worker in workers),
        "stale": sum(worker.stale for worker in workers),
        "slots": slots_in_use(workers),
        "span": span,
        "spans": _spans(span),
        "queue": queue,
        "past": past,
        # The template draws them only for a browser that does not have them.
        "charts": partial(charts, past.points, axis),
        "charts_version": live.version_of(past.points, span.name, queue),
        "addresses": {
            "messages": admin.list_address(Message),
            "queues": admin.list_address(Queue),
            "overview": f"{admin.list_address(Queue)}overview/",
            "charts": f"{admin.list_address(Queue)}charts/",
            "types": f"{admin.list_address(History)}types/",
            "json": f"{admin.list_address(Queue)}overview.json",
        },
    }


def _object(row: QueueLine) -> dict[str, Any]:
    slots, credit = row.uses
    return {
        **asdict(row.state),
        "rates": row.rates and asdict(row.rates),
        "slots_busy": slots.used,
        "slots": slots.of,
        "credit_used": credit.used,
        "credit_limit": credit.of,
    }


def rows(
    states: Sequence[QueueState], rates: Recent, workers: Sequence[WorkerStatus], left: Mapping[str, int]
) -> list[QueueLine]:
    """Return the figures of each queue, those that need a look first."""
    supply = supplies(workers)
    found = [
        QueueLine(
            state=state,
            rates=rates.of(state.name),
            supply=supply[state.name],
            unwanted=left.get(state.name, 0),
        )
        for state in states
    ]
    return sorted(found, key=lambda row: (-row.state.waited_seconds, -row.state.dead_letters, row.state.name))
