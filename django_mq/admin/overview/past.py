"""The charts of all queues, or of one: what happened in an hour, a day, a week or a month."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from django import forms
from django.http import Http404
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_mq.admin.overview.charts import Axis, Chart, Line, draw, figure, heat_rows, moment_text
from django_mq.admin.overview.marks import marks
from django_mq.admin.table import alias
from django_mq.admin.tabs import queue_in, tabs_of
from django_mq.diagnosis.language import LOCAL
from django_mq.diagnosis.messages.criteria import moment
from django_mq.diagnosis.state.fleet import fleet, slots_in_use
from django_mq.diagnosis.state.overview import overview
from django_mq.engine.rollups import begin_of
from django_mq.formats import COUNT_LIMIT
from django_mq.models import Attempt, History, Queue
from django_mq.rollups.series import (
    SPANS,
    Span,
    busiest_types,
    failures_by_type,
    held_by_type,
    recent_rates,
    series,
    waits_by_queue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.overview.charts import HeatRow
    from django_mq.admin.table import TableAdmin
    from django_mq.rollups.series import HeatMap, Point, Series

T = TypeVar("T")
#: The earlier times that charts show beside the chosen one.
BESIDE: Final = {"yesterday": timedelta(days=1), "week": timedelta(days=7)}
#: What the heat maps show if the charts show an hour.
TEN_MINUTES_OF: Final = Span("hours", timedelta(hours=6), timedelta(minutes=10))
TRAFFIC: Final = ("arrived", "accepted")
FAILURES: Final = ("failed", "redelivered")
RATES: Final = (*TRAFFIC, *FAILURES)
#: The most marks of the list below the charts.
MOST_LISTED: Final = 20
PERCENTILES: Final = ("p50", "p95", "p99")


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show the charts of a queue under the tabs of its page, or of all queues."""
    queue = queue_in(request)
    if queue is None and request.GET.get("queue"):
        raise Http404
    name = queue.name if queue else None
    span = SPANS.get(request.GET.get("span", ""), SPANS["hour"])
    until = moment(request.GET.get("until", ""))
    past = series(span, queue=name, until=until, using=alias())
    beside = request.GET.get("beside", "")
    earlier = _earlier(past, span, beside, name)
    before = earlier.before(past) if earlier else None
    links = _Links(admin, request, name)
    given = {
        "queue": name or "",
        "span": span.name,
        "beside": beside if before else "",
        "until": until and past.end,
    }
    axis = Axis(
        [point.time for point in past.points],
        past.step,
        marks(past.begin, past.end, queue=name, acts=admin.may(request, "view_act")),
        links.history(),
        _link(given, until=None),
    )
    return admin.page(
        request,
        "queue/charts",
        name or _("Charts"),
        queue=name,
        span=span,
        past=past,
        charts=[
            *charts(past.points, axis, before, rates=TRAFFIC),
            *_more_charts(past, axis, before, queue, links),
            _types_chart(past, axis, earlier, name),
        ],
        happened=[
            axis.text(mark) for mark in sorted(axis.marks, key=attrgetter("time"), reverse=True)[:MOST_LISTED]
        ],
        heats=_heats(past, span, until, name, links),
        rows=_rows(past, links),
        empties=_empties(name),
        choices=_choices(given, past),
        queue_address=admin.page_address(Queue, queue.pk) if queue else "",
        overview=f"{admin.list_address(Queue)}overview/",
        tabs=tabs_of(admin, request, queue),
        media=admin.media + forms.Media(js=["django_mq/charts.js"]),
    )


class _Links:
    """Where the charts lead: to lists that the user may view."""

    def __init__(self, admin: TableAdmin, request: HttpRequest, queue: str | None) -> None:
        self._admin = admin
        self._queue = {"queue": queue} if queue else {}
        self._may = {model: admin.may(request, f"view_{model._meta.model_name}") for model in (History, Attempt)}

    def history(self, **filters: str) -> str:
        return self._address(History, filters)

    def attempts(self, **filters: str) -> str:
        return self._address(Attempt, filters)

    def _address(self, model: type[History | Attempt], filters: dict[str, str]) -> str:
        """Return the list without its times, which the script and ``of`` add; blank without the permission."""
        wanted = {**self._queue, **filters}
        return self._admin.list_address(model, **wanted) if self._may[model] else ""


def of(address: str, begin: datetime, end: datetime) -> str:
    """Return the address of the rows within a span."""
    times = urlencode({"since": begin.isoformat(), "until": end.isoformat()})
    return address and f"{address}{'&' if '?' in address else '?'}{times}"


#: The values of an earlier time by figure.
Before: TypeAlias = "Callable[[str], list[float | None]]"


def charts(
    points: Sequence[Point], axis: Axis, before: Before | None = None, *, rates: Sequence[str] = RATES
) -> list[Chart]:
    """Draw rates, waits and runs."""
    lines = partial(_lines, points, before)
    return [
        draw(_("Messages a second"), lines(rates, unknown=True), unit="/s", axis=axis),
        draw(_("Wait from ready to claimed"), lines(PERCENTILES, "wait_"), unit="s", axis=axis),
        draw(_("Held from claimed to finished"), lines(PERCENTILES, "run_"), unit="s", axis=axis),
    ]


def _lines(
    points: Sequence[Point],
    before: Before | None,
    names: Sequence[str],
    prefix: str = "",
    *,
    unknown: bool = False,
) -> list[Line]:
    labels = {
        "arrived": _("published"),
        "accepted": _("finished"),
        "failed": _("failed"),
        "redelivered": _("redelivered"),
        "p50": _("median"),
        "p95": _("95 %"),
        "p99": _("99 %"),
    }
    return [
        Line(
            name,
            labels[name],
            [getattr(point, prefix + name) for point in points],
            ends_unknown=unknown,
            before=before(prefix + name) if before else (),
        )
        for name in names
    ]


def _more_charts(
    past: Series, axis: Axis, before: Before | None, queue: Queue | None, links: _Links
) -> list[Chart]:
    """Draw what failed, what is in flight against its limit, what waits, and what died."""
    limit = queue.max_in_flight if queue else slots_in_use(fleet(using=alias())).of
    dead = [Line("failed", _("died"), [point.dead for point in past.points])]
    failed = _lines(past.points, before, FAILURES, unknown=True)
    attempts = replace(axis, address=links.attempts())
    return [
        draw(_("Failures a second"), failed, unit="/s", axis=attempts),
        *depths(past.points, axis, limit, _("limit") if queue else _("slots")),
        draw(_("Died"), dead, unit="", axis=attempts),
    ]


def depths(points: Sequence[Point], axis: Axis, limit: int | None, label: str) -> list[Chart]:
    """Draw what is in flight, against its limit, and what waits."""
    flying = [Line("accepted", _("in flight"), [point.claimed for point in points])]
    if limit:
        flying.append(Line("limit", label, [limit] * len(points)))
    ready = [Line("arrived", _("ready"), [point.ready for point in points])]
    return [
        draw(_("In flight, at the end of each minute"), flying, unit="", axis=axis),
        draw(_("Ready, at the end of each minute"), ready, unit="", axis=axis),
    ]


def _types_chart(past: Series, axis: Axis, earlier: _Earlier | None, queue: str | None) -> Chart:
    """Draw how long the messages of the types that took most time were held."""
    types = busiest_types(past, queue=queue, using=alias())
    held = held_by_type(past, types, queue=queue, using=alias())
    before = earlier.held(past, types, queue) if earlier else {}
    lines = [
        Line(f"type{number}", type_ or "-", held[type_], before=before.get(type_, ()))
        for number, type_ in enumerate(types, 1)
    ]
    return draw(_("Held by type, 95 %"), lines, unit="s", axis=axis)


@dataclass(frozen=True, slots=True)
class _Earlier:
    """A series as long as the one that is shown, and how much earlier it is."""

    series: Series
    shift: timedelta

    def before(self, past: Series) -> Before:
        """Return the values of this series by figure, for the times of the one that is shown."""
        points = self._shifted(past, self.series.points)
        return lambda name: [None if point is None else getattr(point, name) for point in points]

    def held(self, past: Series, types: Collection[str], queue: str | None) -> dict[str, list[float | None]]:
        """Return how long the messages of these types were held, for the times of the series that is shown."""
        found = held_by_type(self.series, types, queue=queue, using=alias())
        return {type_: self._shifted(past, values) for type_, values in found.items()}

    def _shifted(self, past: Series, values: Sequence[T | None]) -> list[T | None]:
        known = dict(zip((point.time for point in self.series.points), values, strict=True))
        return [known.get(begin_of(point.time - self.shift, self.series.step)) for point in past.points]


def _earlier(past: Series, span: Span, beside: str, queue: str | None) -> _Earlier | None:
    """Return what is drawn beside a series; None if nothing is."""
    shift = BESIDE.get(beside)
    if shift is None:
        return None
    return _Earlier(series(span, queue=queue, until=past.end - shift, using=alias()), shift)


def _heats(
    past: Series, span: Span, until: datetime | None, queue: str | None, links: _Links
) -> list[tuple[str, str, list[HeatRow], list[tuple[str, str]]]]:
    """Return the title, the sentence without rows, the rows and the ticks of each heat map."""
    if span.name == "hour":
        past = series(TEN_MINUTES_OF, queue=queue, until=until, using=alias())
    axis = Axis([point.time for point in past.points], past.step)
    failed = failures_by_type(past, queue=queue, using=alias())
    found = [
        (
            _("Failed attempts by type"),
            _("No attempt failed."),
            _heat(failed, axis, "", lambda name: links.attempts(type=name)),
            axis.ticks,
        )
    ]
    if queue is None:
        waited = waits_by_queue(past, using=alias())
        rows = _heat(waited, axis, "s", lambda name: links.history(queue=name))
        found.append((_("Mean wait by queue"), _("No message was accepted."), rows, axis.ticks))
    return found


def _heat(found: HeatMap, axis: Axis, unit: str, address: Callable[[str], str]) -> list[HeatRow]:
    return heat_rows(found.rows, [address(name) for name, _values in found.rows], axis, unit)


def _rows(past: Series, links: _Links) -> list[dict[str, Any]]:
    """Return the figures as a table, the latest first, for readers without a script."""
    spans = [f"{of_}_{percent}" for of_ in ("wait", "run") for percent in PERCENTILES]
    return [
        {
            "time": moment_text(point.time, past.step),
            "address": of(links.history(), point.time, point.time + past.step),
            "rates": ["-" if (rate := getattr(point, name)) is None else figure(rate, "/s") for name in RATES],
            "spans": [LOCAL.precise(getattr(point, name)) for name in spans],
            "dead": "-" if point.dead is None else figure(point.dead, ""),
        }
        for point in reversed(past.points)
    ]


def _empties(queue: str | None) -> str:
    """Return when what is ready will be done, in a sentence; blank if nothing is ready, or no rate is known."""
    states = overview([queue] if queue else (), using=alias())
    recent = recent_rates(using=alias())
    rates = [rate for state in states if (rate := recent.of(state.name))]
    ready = sum(state.unserved for state in states)
    if not ready or not rates:
        return ""
    fewer = sum(rate.accepted - rate.arrived for rate in rates)
    if fewer <= 0:
        return _("What is ready does not get less at this rate.")
    is_least = any(state.ready >= COUNT_LIMIT for state in states)
    words = _("Empty in %(time)s or later at this rate.") if is_least else _("Empty in %(time)s at this rate.")
    return words % {"time": LOCAL.duration(ready / fewer)}


def _link(given: dict[str, Any], **changed: Any) -> str:
    """Return the address of the page with some parameters changed."""
    wanted = {name: value for name, value in (given | changed).items() if value}
    if "until" in wanted:
        wanted["until"] = wanted["until"].isoformat()
    return f"?{urlencode(wanted)}"


def _choices(given: dict[str, Any], past: Series) -> dict[str, list[tuple[str, str, bool]]]:
    """Return the links of the page by group: address, label, and whether it is chosen."""
    names = {"hour": _("Hour"), "day": _("Day"), "week": _("Week"), "month": _("30 days")}
    beside = {"": _("Nothing"), "yesterday": _("The day before"), "week": _("The week before")}
    length = past.end - past.begin
    link = partial(_link, given)
    moves = [(link(until=past.end - length), _("Earlier"), False)]
    if given["until"]:
        moves += [(link(until=past.end + length), _("Later"), False), (link(until=None), _("Now"), False)]
    return {
        "spans": [(link(span=name), label, name == given["span"]) for name, label in names.items()],
        "moves": moves,
        "beside": [(link(beside=name), label, name == given["beside"]) for name, label in beside.items()],
    }
