"""The overview: tiles, alerts by cause, the queues by urgency and the last hour, and the same figures as JSON.

It takes a handful of statements, however many messages there are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin import helpers
from django.http import HttpResponseRedirect, JsonResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns, live
from django_mq.admin.overview import tiles
from django_mq.admin.overview.alerts import as_object, delivery_column, found_objects, worst_first
from django_mq.admin.overview.causes import causes
from django_mq.admin.overview.charts import Axis
from django_mq.admin.overview.past import charts
from django_mq.admin.overview.snoozed import hidden, identity
from django_mq.admin.table import alias
from django_mq.diagnosis.language import LOCAL, rate
from django_mq.diagnosis.messages.indexes import RETRYING
from django_mq.diagnosis.state.acknowledged import snoozed
from django_mq.diagnosis.state.alerts import LATE_SECONDS, alerts
from django_mq.diagnosis.state.extensions import found_by_extensions
from django_mq.diagnosis.state.fleet import fleet, slots_in_use, supplies
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.running import unusual
from django_mq.diagnosis.state.unwanted import unwanted
from django_mq.engine.decisions.urgency import Urgency, UrgencyLevel, urgency
from django_mq.models import History, InsightHour, Message, Queue, SnoozedAlert
from django_mq.rollups.series import COUNTED, SPANS, recent_rates, series
from django_mq.tiles.figures import of_extensions, of_queues
from django_mq.tiles.past import pasts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from django.http import HttpRequest, HttpResponse
    from django_stubs_ext import StrOrPromise

    from django_mq.admin.table import TableAdmin
    from django_mq.diagnosis.state.alerts import Alert
    from django_mq.diagnosis.state.fleet import Supply, Use, WorkerStatus
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.rollups.series import Rates, Recent, Span

#: If there are more queues, a map has all, and the table the most urgent ones.
MOST_ROWS = 50
ROWS_BESIDE_MAP = 25
#: The most cells of the map, and the characters that a cell has room for.
MOST_CELLS = 2000
MOST_CHARACTERS = 10
#: The words of the map, the worst first.
LEVELS: Mapping[UrgencyLevel, StrOrPromise] = {
    UrgencyLevel.PROBLEM: gettext_lazy("problem"),
    UrgencyLevel.NOTICE: gettext_lazy("notice"),
    UrgencyLevel.WELL: gettext_lazy("running"),
    UrgencyLevel.IDLE: gettext_lazy("resting"),
}

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
    urgency: Urgency

    @property
    def is_idle(self) -> bool:
        return self.urgency.level is UrgencyLevel.IDLE

    @property
    def short_name(self) -> str:
        """The name, or the end of a long one, which tells names apart that begin alike."""
        name = self.state.name
        return name if len(name) <= MOST_CHARACTERS else f"…{name[1 - MOST_CHARACTERS :]}"

    @property
    def summary(self) -> str:
        """The text of its cell in the map, on hover and for screen readers."""
        state = self.state
        counts = {
            _("ready"): state.ready,
            _("retrying"): state.retrying,
            _("claimed"): state.claimed,
            _("dead"): state.dead_letters,
        }
        parts = [f"{LOCAL.bounded(count)} {name}" for name, count in counts.items() if count]
        if minutes := int(state.oldest_ready_seconds or 0) // 60:
            # Of seconds, each refresh would be a change.
            parts.insert(0, _("oldest: %(age)s") % {"age": LOCAL.duration(60 * minutes)})
        words = ", ".join([str(LEVELS[self.urgency.level]), *parts])
        return f"{state.name}: {words}"

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
    def cell_version(self) -> str:
        """Return what stands for all that its cell in the map shows."""
        state, minutes = self.state, int(self.state.oldest_ready_seconds or 0) // 60
        counts = (state.ready, state.retrying, state.claimed, state.dead_letters)
        return live.version_of("cell", state.name, int(self.urgency.level), minutes, counts)

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
    """Show the overview.

    A button beside an alert posts an action of the list of queues, which checks the permission and may ask first.
    """
    if request.method == "POST":
        done: HttpResponse | None = admin.response_action(request, admin.get_queryset(request))
        return done or HttpResponseRedirect(request.get_full_path())
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
            "tiles": [tiles.as_object(each) for each in figures["tiles"]],
            "alerts": figures["all_alerts"](),
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
    # The sentences of hundreds of alerts take long, and the page has few of them.
    asleep = hidden([*map(as_object, found), *added], known) if known else []
    if asleep:
        found = [alert for alert in found if identity(as_object(alert)) not in known]
        added = [alert for alert in added if identity(alert) not in known]
    may = admin.may(request, "view_history")
    messages = admin.list_address(History, queue=queue or "") if may else ""
    times = [point.time for point in past.points]
    zoom = f"{admin.list_address(Queue)}charts/?{urlencode({'queue': queue} if queue else {})}"
    axis = Axis(times, past.step, address=messages, zoom=zoom)
    hour = past if span is SPANS["hour"] and queue is None else None
    mine = [*of_queues(states, rates, workers, unusual(using=alias())), *of_extensions(alias())]
    mine = tiles.allowed(admin, request, mine)
    return {
        **_table(rows(states, rates, workers, left, found), queue),
        "known": live.known(request),
        "tiles": tiles.shown(admin, mine, pasts(mine, hour, using=alias())),
        "all_alerts": lambda: worst_first([*map(as_object, found), *added]),
        "causes": causes(admin, request, found, added),
        "snoozed": asleep,
        "snoozed_address": admin.list_address(SnoozedAlert),
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
        "addresses": _addresses(admin, request, queue),
        "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
    }


def _addresses(admin: TableAdmin, request: HttpRequest, queue: str | None) -> dict[str, str]:
    queues = admin.list_address(Queue)
    given = {"span": request.GET.get("span"), "queue": queue}
    chosen = urlencode({name: value for name, value in given.items() if value})
    return {
        "messages": admin.list_address(Message),
        "queues": queues,
        "overview": f"{queues}overview/",
        "here": f"{queues}overview/?{chosen}".removesuffix("?"),
        "charts": f"{queues}charts/",
        "types": f"{admin.list_address(History)}types/",
        "json": f"{queues}overview.json",
    }


def _table(lines: Sequence[QueueLine], queue: str | None) -> dict[str, Any]:
    """Return the rows of the table, the names of idle queues, and the map if there are too many rows."""
    has_map = len(lines) > MOST_ROWS
    busy = [line for line in lines if not line.is_idle]
    first = busy[:ROWS_BESIDE_MAP] if has_map else busy
    return {
        "rows": lines,
        # To render hundreds of rows takes longer than all else.
        "shown_rows": first + [line for line in lines if line.state.name == queue and line not in first],
        "idle_rows": [] if has_map else [line for line in lines if line.is_idle and line.state.name != queue],
        "cells": _cells(lines) if has_map else [],
        "levels": _levels(lines),
    }


def _object(row: QueueLine) -> dict[str, Any]:
    slots, credit = row.uses
    return {
        **asdict(row.state),
        "urgency": row.urgency.level.name.lower(),
        "rates": row.rates and asdict(row.rates),
        "slots_busy": slots.used,
        "slots": slots.of,
        "credit_used": credit.used,
        "credit_limit": credit.of,
    }


def rows(
    states: Sequence[QueueState],
    rates: Recent,
    workers: Sequence[WorkerStatus],
    left: Mapping[str, int],
    found: Collection[Alert],
) -> list[QueueLine]:
    """Return the figures of each queue, the most urgent first. ``found`` are the alerts that count."""
    supply = supplies(workers)
    urgent = {alert.queue.name for alert in found if alert.queue and alert.urgent}
    noted = {alert.queue.name for alert in found if alert.queue}
    lines = [
        QueueLine(
            state=state,
            rates=rates.of(state.name),
            supply=supply[state.name],
            unwanted=left.get(state.name, 0),
            urgency=_urgency(state, rates.of(state.name), state.name in urgent, state.name in noted),
        )
        for state in states
    ]
    # By name among those that are equally urgent.
    return sorted(lines, key=lambda line: line.urgency, reverse=True)


def _urgency(state: QueueState, rates: Rates | None, has_problem: bool, has_notice: bool) -> Urgency:
    return urgency(
        has_problem=has_problem,
        has_notice=has_notice,
        waited_seconds=state.waited_seconds,
        dead=state.new_dead_letters,
        failed=rates.failed if rates else 0.0,
        held=state.held,
        moved=rates.arrived + rates.accepted if rates else 0.0,
    )


def _cells(table: Sequence[QueueLine]) -> list[QueueLine]:
    """Return the queues of the map by name, so that each keeps its place; the first of very many, by urgency."""
    return sorted(table[:MOST_CELLS], key=lambda line: line.state.name)


def _levels(table: Sequence[QueueLine]) -> list[tuple[int, StrOrPromise, int]]:
    """Return the levels of urgency with their words and how many queues have each, the worst first."""
    counted = Counter(line.urgency.level for line in table)
    return [(level.value, words, counted[level]) for level, words in LEVELS.items() if counted[level]]
