"""What a queue does now: what limits it, its charts, its first messages, its workers, failures and limits.

Each part has an id, ``now-NAME``. A user sees the parts about tables that the user may view.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_mq.admin import columns
from django_mq.admin.addresses import message_address
from django_mq.admin.failures.admin import curves_of, sparkline
from django_mq.admin.messages.descriptions import describe
from django_mq.admin.messages.life import viewable
from django_mq.admin.overview.alerts import delivery_column
from django_mq.admin.overview.charts import Axis, Chart
from django_mq.admin.overview.marks import marks
from django_mq.admin.overview.past import charts, depths
from django_mq.admin.table import alias
from django_mq.diagnosis.language import LOCAL
from django_mq.diagnosis.messages.indexes import ORDERS, RETRYING
from django_mq.diagnosis.state.alerts import LATE_SECONDS
from django_mq.diagnosis.state.fleet import Use, fleet, supplies
from django_mq.diagnosis.state.limit_words import limit_sentence
from django_mq.diagnosis.state.limiting import fills_of, gauges_of, limit_now
from django_mq.diagnosis.state.overview import states_of, with_facts
from django_mq.diagnosis.state.unwanted import unwanted
from django_mq.diagnosis.state.waiting_keys import numbers_of_waiting, waiting_keys
from django_mq.engine.decisions.limiting_factor import Factor
from django_mq.engine.decisions.selection import may_want
from django_mq.engine.decisions.worker_mode import WorkerMode
from django_mq.engine.states import READY
from django_mq.failures.groups import newest_groups
from django_mq.models import Consumer, FailureGroup, History, Message, Queue, WorkerSession
from django_mq.models.message import in_state
from django_mq.rollups.series import RECENT_MINUTES, SPANS, series
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest
    from django_stubs_ext import StrOrPromise

    from django_mq.admin.table import TableAdmin
    from django_mq.diagnosis.state.fleet import Supply, WorkerStatus
    from django_mq.diagnosis.state.limiting import LimitGauge, LimitNow
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.diagnosis.state.waiting_keys import WaitingKey
    from django_mq.engine.decisions.claim_limits import Fill
    from django_mq.rollups.series import Series
    from django_mq.stores.records import Counts

#: The most rows of each part.
FIRST_MESSAGES: Final = 5
MOST_WORKERS: Final = 10
MOST_GROUPS: Final = 5
MOST_WAITING: Final = 10
#: What stands still, and what an operator wants; the rest is the usual course of things.
BAD: Final = frozenset({Factor.UNSERVED, Factor.UNWANTED})
WARNS: Final = frozenset({Factor.PAUSED, Factor.QUIET})


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What the parts are made of, which is read once."""

    queue: Any
    state: QueueState
    workers: Sequence[WorkerStatus]
    supply: Supply
    unwanted: int
    waiting: list[WaitingKey] = field(default_factory=list)


def figures_of(queue: Queue, counts: Counts) -> QueueFigures:
    """Read what the parts have in common: a handful of statements, however many messages there are."""
    alive = [worker for worker in fleet(using=alias()) if not worker.stale]
    live = Counter(name for worker in alive for name in worker.queues)
    every = [_of_queue(worker, queue.name) for worker in alive]
    mine = [worker for worker in every if worker.queues or worker.consumers]
    [state] = states_of([queue], {queue.name: counts}, live, using=alias())
    left = unwanted(mine, using=alias()).get(queue.name, 0)
    waiting = waiting_keys(queue.name, MOST_WAITING, using=alias()) if counts.parked else []
    return QueueFigures(queue, state, mine, supplies(mine)[queue.name], left, waiting)


def _of_queue(worker: WorkerStatus, queue: str) -> WorkerStatus:
    """Return what a worker has of one queue."""
    consumers = tuple(one for one in worker.consumers if one.queue == queue)
    return replace(worker, queues=tuple(name for name in worker.queues if name == queue), consumers=consumers)


def parts(page: TableAdmin, request: HttpRequest, figures: QueueFigures) -> dict[str, Any]:
    """Return the context of the parts that the user may view."""
    name = figures.queue.name
    fills, limit = _limit(figures)
    waiting = numbers_of_waiting([name], using=alias()) if figures.waiting else []
    gauges = gauges_of(fills, {limit_name: number for _queue, limit_name, number in waiting})
    sees_keys = page.may(request, "view_message")
    past = series(SPANS["hour"], queue=name, using=alias())
    return {
        "factor": _factor(page, request, figures, limit, names_keys=sees_keys),
        "tiles": [*_counts(page, request, figures.state), *_rates(past)],
        "past": past,
        "charts": _charts(page, request, figures, past),
        "charts_address": f"{page.list_address(Queue)}charts/?{urlencode({'queue': name})}",
        "head": _head(page, request, figures, limit),
        "workers": _workers(page, request, figures),
        "failures": _failures(page, request, name),
        "limits": [*_own_limits(figures), *_key_limits(gauges, names_keys=sees_keys)],
        "dropped": LOCAL.number(figures.queue.dropped) if figures.queue.dropped else "",
    }


def limiting(page: TableAdmin, request: HttpRequest, queue_id: int) -> dict[str, str]:
    """Return what limits a queue now, for the page of a message that waits in it."""
    queue = with_facts(Queue.objects.using(alias())).get(pk=queue_id)
    figures = figures_of(queue, columns.measure([queue])[queue.name])
    _fills, limit = _limit(figures)
    found = _factor(page, request, figures, limit, names_keys=page.may(request, "view_message"))
    if found["address"].startswith("#"):
        found["address"] = f"{page.page_address(Queue, queue.pk)}{found['address']}"
    return found


def _limit(figures: QueueFigures) -> tuple[Sequence[Fill], LimitNow]:
    """Return how full the limits by key of the queue are, and what limits it."""
    fills = fills_of(figures.queue.name, figures.waiting, using=alias())
    return fills, limit_now(figures.state, figures.supply, figures.unwanted, figures.waiting, fills)


def _factor(
    page: TableAdmin, request: HttpRequest, figures: QueueFigures, limit: LimitNow, *, names_keys: bool
) -> dict[str, str]:
    """Return what limits the queue now: a sentence, its style, and where to act."""
    name = limit.state.name
    label, address = "", ""
    if limit.factor in {Factor.UNSERVED, Factor.QUIET, Factor.SLOTS}:
        if page.may(request, "view_workersession"):
            label, address = _("Workers"), page.list_address(WorkerSession)
    elif limit.factor in {Factor.UNWANTED, Factor.CREDIT}:
        if page.may(request, "view_consumer"):
            label, address = _("Its consumers"), page.list_address(Consumer, queue=name)
    elif limit.factor in {Factor.QUEUE, Factor.RECEIVERS, Factor.KEYS}:
        label, address = _("Its limits"), "#now-limits"
    is_late = limit.state.waited_seconds > LATE_SECONDS
    style = "bad" if limit.factor in BAD else "warn" if is_late or limit.factor in WARNS else ""
    return {
        "name": limit.factor.value,
        "delivery": delivery_column(figures.state, figures.supply.awake, figures.unwanted, short=True),
        "sentence": limit_sentence(limit, names_keys=names_keys),
        "style": style,
        "label": label,
        "address": address,
    }


@dataclass(frozen=True, slots=True)
class QueueTile:
    """A figure with its name, and the list that it counts."""

    name: str
    label: StrOrPromise
    value: str
    address: str = ""
    is_bad: bool = False


def _counts(page: TableAdmin, request: HttpRequest, state: QueueState) -> list[QueueTile]:
    may = page.may(request, "view_message")
    age = LOCAL.age(state.oldest_ready_seconds, is_exact=state.is_oldest_exact)
    known = format_html('<span class="mq-ago">{}</span>', age)
    status = Message.Status
    counts: list[tuple[str, StrOrPromise, int, int | str]] = [
        ("ready", status.READY.label, state.ready, status.READY.value),
        ("scheduled", status.SCHEDULED.label, state.scheduled, status.SCHEDULED.value),
        ("retrying", _("retrying"), state.retrying, RETRYING),
        ("parked", status.PARKED.label, state.parked, status.PARKED.value),
        ("claimed", status.CLAIMED.label, state.claimed, status.CLAIMED.value),
        ("dead", status.DEAD.label, state.dead, status.DEAD.value),
    ]
    found = [
        QueueTile(
            name,
            label,
            LOCAL.bounded(number, more=name == "retrying" and number > 0 and state.is_retrying_cut),
            page.list_address(Message, queue=state.name, state=key) if may and number else "",
            is_bad=name == "dead" and number > 0 and state.new_dead_letters > 0,
        )
        for name, label, number, key in counts
        if number or name != "parked"
    ]
    return [found[0], QueueTile("oldest", _("oldest ready"), known), *found[1:]]


def _rates(past: Series) -> list[QueueTile]:
    """Return the rates of the newest known minutes, as ``recent_rates`` counts them."""
    newest = [] if past.late else [point for point in past.points if point.arrived is not None][-RECENT_MINUTES:]
    labels = {"arrived": _("published"), "accepted": _("finished"), "failed": _("failed")}
    means = {name: [getattr(point, name) for point in newest] for name in labels}
    return [
        QueueTile(name, label, f"{LOCAL.rate(sum(means[name]) / len(newest))}/s" if newest else "-")
        for name, label in labels.items()
    ]


def _charts(page: TableAdmin, request: HttpRequest, figures: QueueFigures, past: Series) -> list[Chart]:
    """Draw the last hour, with what happened to the queue."""
    name = figures.queue.name
    seen = viewable(page, request, History) is not None
    happened = marks(past.begin, past.end, queue=figures.queue.name, acts=page.may(request, "view_act"))
    axis = Axis(
        [point.time for point in past.points],
        past.step,
        happened,
        page.list_address(History, queue=name) if seen else "",
        f"{page.list_address(Queue)}charts/?{urlencode({'queue': name})}",
    )
    return [*charts(past.points, axis), *depths(past.points, axis, figures.state.most_claimed, _("limit"))]


@dataclass(frozen=True, slots=True)
class HeadMessage:
    """A message at the head of the queue, and what it waits for."""

    message: Message
    id: str
    address: str
    name: str
    preview: str
    since: str
    attempts: str
    waits_for: str


def _head(page: TableAdmin, request: HttpRequest, figures: QueueFigures, limit: LimitNow) -> dict[str, Any] | None:
    """Return the first messages that wait, in the order of delivery; else those that are due next."""
    rows = viewable(page, request, Message)
    if rows is None:
        return None
    status = Message.Status.READY if figures.state.ready else Message.Status.SCHEDULED
    own = rows.filter(in_state(status), queue_id=figures.queue.pk).order_by(*ORDERS[status])
    first = list(own.select_related("queue").defer("headers", "properties", "body")[:FIRST_MESSAGES])
    describe(first)
    reasons = _reasons(first, figures, limit)
    return {
        "is_ready": status is Message.Status.READY,
        "rows": [_head_message(page, one, reasons[one.pk]) for one in first],
    }


def _head_message(page: TableAdmin, message: Any, waits_for: str) -> HeadMessage:
    time = message.deliver_at if message.state == Message.Status.SCHEDULED else message.published_at
    about = message.description
    return HeadMessage(
        message=message,
        id=columns.short_id(message.message_id),
        address=message_address(page, message.message_id),
        name=columns.breakable(message.type or about.handlers or "-"),
        preview=about.preview,
        since=columns.ago(time) if time else "-",
        attempts=about.attempts,
        waits_for=waits_for,
    )


def _reasons(first: Sequence[Any], figures: QueueFigures, limit: LimitNow) -> dict[int, str]:
    """Return what each of the first messages waits for: what limits the queue, unless it is another thing."""
    found = {one.pk: _waits_for(one, limit.factor) for one in first}
    if limit.unwanted:
        selectors = {consumer.selector for worker in figures.workers for consumer in worker.consumers}
        browsed = shared_store(alias()).browser.browse(limit.state.name, states=[READY], limit=FIRST_MESSAGES)
        left = {each.id for each in browsed if not may_want(selectors, each.as_message())}
        found |= {one.pk: _("a consumer with a matching selector") for one in first if one.pk in left}
    keys = {one.group_key for one in first if one.group_key}
    if limit.state.grouped and keys:
        held = Message.objects.using(alias()).filter(in_state(Message.Status.CLAIMED), queue_id=figures.queue.pk)
        busy = set(held.filter(group_key__in=keys).order_by().values_list("group_key", flat=True))
        words = _("the message of its group “%(group)s” that is claimed")
        found |= {one.pk: words % {"group": one.group_key} for one in first if one.group_key in busy}
    return found


def _waits_for(message: Any, factor: Factor) -> str:
    if message.state == Message.Status.SCHEDULED:
        return _("its time")
    if message.is_dead_letter:
        return _("an operator: it is a dead letter")
    words: dict[Factor, str] = {
        Factor.PAUSED: _("the queue to be resumed"),
        Factor.UNSERVED: _("a worker"),
        Factor.QUIET: _("a worker that takes new work"),
        Factor.QUEUE: _("one in flight to end"),
        Factor.RECEIVERS: _("a worker that may receive"),
        Factor.SLOTS: _("a free slot"),
        Factor.CREDIT: _("a consumer that may have more in flight"),
    }
    return words.get(factor, _("nothing: it is next"))


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker that serves the queue."""

    name: str
    address: str
    handlers: str
    credit: Use
    slots: Use
    mode: str
    heartbeat: str


def _workers(page: TableAdmin, request: HttpRequest, figures: QueueFigures) -> dict[str, Any] | None:
    if viewable(page, request, Consumer) is None:
        return None
    may = page.may(request, "view_workersession")
    found = [
        WorkerRow(
            name=columns.breakable(worker.name),
            address=page.page_address(WorkerSession, worker.id) if may else "",
            handlers=", ".join(sorted({one.handler for one in worker.consumers if one.handler})),
            credit=sum((Use(one.credit_used, one.credit_limit) for one in worker.consumers), Use()),
            slots=Use(worker.busy or 0, worker.slots or 0),
            mode=_mode(worker),
            heartbeat=LOCAL.duration(worker.heartbeat_seconds),
        )
        for worker in figures.workers[:MOST_WORKERS]
    ]
    return {
        "rows": found,
        "more": max(0, len(figures.workers) - MOST_WORKERS),
        "address": page.list_address(Consumer, queue=figures.queue.name),
    }


def _mode(worker: WorkerStatus) -> str:
    """Return what the worker was told; blank if it works."""
    words = {WorkerMode.QUIET: _("takes no new work"), WorkerMode.STOP: _("told to stop")}
    return _("stopping") if worker.is_leaving else words.get(WorkerMode(worker.conduct), "")


def _failures(page: TableAdmin, request: HttpRequest, queue: str) -> dict[str, Any] | None:
    """Return the groups of failures of the queue that failed last."""
    groups = viewable(page, request, FailureGroup)
    if groups is None:
        return None
    found = newest_groups(groups, queue, MOST_GROUPS)
    curves = curves_of([group.pk for group in found])
    return {
        "rows": [
            {
                "what": columns.clip(str(group)),
                "place": columns.breakable(group.place),
                "address": page.page_address(FailureGroup, group.pk),
                "number": LOCAL.number(group.queues[queue]),
                "curve": sparkline(curves[group.pk]),
                "last": columns.ago(group.last_at),
            }
            for group in found
        ],
        "address": page.list_address(FailureGroup),
    }


@dataclass(frozen=True, slots=True)
class Gauge:
    """How much of a limit is used; of how much is blank if that is not known."""

    name: str
    label: str
    used: str
    of: str
    #: The used share, for the element ``meter``.
    share: float
    note: str = ""

    @property
    def is_full(self) -> bool:
        return self.share >= 1.0


def _gauge(name: str, label: str, used: float, of: float, note: str = "") -> Gauge:
    return Gauge(name, label, LOCAL.digits(used), LOCAL.digits(of), min(1.0, used / of) if of else 0.0, note)


def _own_limits(figures: QueueFigures) -> list[Gauge]:
    """Return what the options of the queue and its workers allow, and how much of it is used."""
    state, supply, queue = figures.state, figures.supply, figures.queue
    receivers = state.max_receivers or 0
    found = [
        ("in-flight", _("most in flight"), state.claimed, state.most_claimed),
        ("receivers", _("most consumers"), min(state.consumers, receivers), receivers),
        ("slots", _("slots of its workers"), supply.slots.used, supply.slots.of),
        ("credit", _("max in flight of its consumers"), supply.credit.used, supply.credit.of),
        ("messages", _("maximum messages"), max(state.held, queue.held_messages or 0), state.max_messages or 0),
        ("bytes", _("maximum bytes"), queue.held_bytes or 0, queue.max_bytes or 0),
    ]
    return [_gauge(name, label, used, of) for name, label, used, of in found if of]


def _key_limits(gauges: Sequence[LimitGauge], *, names_keys: bool) -> list[Gauge]:
    """Return how full each limit by key is, by its fullest key, and how many keys wait."""
    return [_key_limit(gauge, names_keys=names_keys) for gauge in gauges]


def _key_limit(gauge: LimitGauge, *, names_keys: bool) -> Gauge:
    fill = gauge.fullest
    notes = [_("fullest key: %(key)s") % {"key": fill.key}] if names_keys and fill.key else []
    if gauge.full:
        notes.append(_("keys at the limit: %(count)s") % {"count": LOCAL.number(gauge.full)})
    if gauge.waiting:
        notes.append(_("keys that wait: %(count)s") % {"count": LOCAL.number(gauge.waiting)})
    words = _("limit “%(limit)s”, messages that run") if fill.runs else _("rate “%(limit)s”, burst used")
    label = words % {"limit": fill.limit}
    return _gauge(f"key-{fill.limit}", label, fill.used, fill.of or 0.0, "; ".join(notes))
