"""The figures by name, each with its help: one series for each of ``MOST_QUEUES`` queues, and a few of the site.

Names that clients choose, such as types and correlation ids, never become labels.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily

from django_mq import conf
from django_mq.bridges.inward import looks as receiver_looks
from django_mq.bridges.models import BridgeLink
from django_mq.bridges.reports import every_report
from django_mq.diagnosis.state.extensions import found_by_extensions
from django_mq.diagnosis.state.fleet import fleet
from django_mq.diagnosis.state.overview import oldest_claims, overview
from django_mq.diagnosis.state.waiting_keys import numbers_of_waiting
from django_mq.engine.decisions.receivers import ReceiverCondition
from django_mq.rollups.series import Spans, recent_rates, recent_spans, summed_up_seconds
from django_mq.seams.findings import Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.core import Metric

    from django_mq.bridges.inward import ReceiverLook
    from django_mq.bridges.reports import BridgeReport
    from django_mq.diagnosis.state.extensions import Found
    from django_mq.diagnosis.state.fleet import WorkerStatus
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.rollups.series import Recent

#: The most queues with series of their own, those with alerts first: series burden the server that scrapes.
MOST_QUEUES = 500
#: Percentiles as labels, and as parts of columns. (Prometheus keeps the label `quantile` for summaries.)
PERCENTILES = {"50": "p50", "95": "p95"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What a scrape has read of the queues with series of their own, and of the site."""

    queues: Sequence[QueueState]
    claims: dict[str, float]
    recent: Recent
    spans: dict[str, Spans]
    workers: Sequence[WorkerStatus]
    summed_up_seconds: float | None
    #: The number of queues, with and without series.
    number: int
    #: What extensions have found.
    found: Sequence[Found]
    #: How many keys of each queue and limit wait.
    waiting: Sequence[tuple[str, str, int]]
    #: What the receivers of other brokers' messages do.
    receivers: Sequence[ReceiverLook]
    #: What is known of the bridges to other brokers.
    bridges: Sequence[BridgeReport]


def read(alias: str) -> list[Metric]:
    """Return every figure of an alias, with a few statements, however much is queued."""
    queues, recent = overview(using=alias), recent_rates(using=alias)
    chosen = sorted(queues, key=_urgency, reverse=True)[:MOST_QUEUES]
    look = Scrape(
        queues=chosen,
        claims=oldest_claims([queue.name for queue in chosen], using=alias),
        recent=recent,
        spans=recent_spans(recent.minutes, using=alias),
        workers=fleet(using=alias),
        summed_up_seconds=summed_up_seconds(using=alias),
        number=len(queues),
        found=found_by_extensions(using=alias),
        waiting=numbers_of_waiting([queue.name for queue in chosen if queue.parked], using=alias),
        receivers=receiver_looks(alias),
        bridges=every_report(alias, queues),
    )
    figures = (_standing, _traffic, _credit, _limits, _site, _extensions, _receivers, _bridges)
    return [up(readable=True), *(metric for each in figures for metric in each(look))]


def up(*, readable: bool) -> Metric:
    """Return the figure that is always there."""
    return _single("up", "1 if the queues' database could be read.", float(readable))


def _urgency(queue: QueueState) -> tuple[float, int, int]:
    return queue.waited_seconds, queue.dead_letters, queue.ready


def _standing(look: Scrape) -> Iterator[Metric]:
    """Yield the state of the queues."""
    ready = _gauge(
        "oldest_ready_seconds", "Seconds, at least, for which the oldest message is ready; 0 if none is.", "queue"
    )
    claimed = _gauge("oldest_claimed_seconds", "Age of the oldest claim; 0 if no worker holds a message.", "queue")
    depth = _gauge("messages", "Messages in each state, counted up to 10,000.", "queue", "state")
    dead_letters = _gauge("dead_letters", "Dead letters, dead in place or sent here by other queues.", "queue")
    role = _gauge("takes_dead_letters", "1 if other queues send their dead letters here.", "queue")
    consumers = _gauge("consumers", "Live worker sessions that take from the queue.", "queue")
    paused = _gauge("paused", "1 if the queue is paused.", "queue")
    for queue in look.queues:
        ready.add_metric([queue.name], queue.oldest_ready_seconds or 0.0)
        claimed.add_metric([queue.name], look.claims.get(queue.name, 0.0))
        for state in ("ready", "scheduled", "retrying", "parked", "claimed", "dead"):
            depth.add_metric([queue.name, state], getattr(queue, state))
        dead_letters.add_metric([queue.name], queue.dead_letters)
        role.add_metric([queue.name], queue.takes_dead_letters)
        consumers.add_metric([queue.name], queue.consumers)
        paused.add_metric([queue.name], queue.paused)
    yield from (ready, claimed, depth, dead_letters, role, consumers, paused)


def _traffic(look: Scrape) -> Iterator[Metric]:
    """Yield rates and times of the newest minutes. A queue that accepted no message has no times."""
    rate = _gauge("rate", "Messages a second over the newest five known minutes.", "queue", "kind")
    wait = _gauge(
        "wait_seconds", "From ready to claimed, over the newest five known minutes.", "queue", "percentile"
    )
    run = _gauge(
        "held_seconds", "From claimed to accepted, over the newest five known minutes.", "queue", "percentile"
    )
    for queue in look.queues:
        rates = look.recent.of(queue.name)
        for kind in () if rates is None else ("arrived", "accepted", "failed", "redelivered"):
            rate.add_metric([queue.name, kind], getattr(rates, kind))
        spans = look.spans.get(queue.name, Spans())
        for name, gauge in (("wait", wait), ("run", run)):
            for label, column in PERCENTILES.items():
                seconds = getattr(spans, f"{name}_{column}")
                if seconds is not None:
                    gauge.add_metric([queue.name, label], seconds)
    yield from (rate, wait, run)


def _credit(look: Scrape) -> Iterator[Metric]:
    """Yield the credit of each queue's live consumers, and how much of it is used. No limit is no series."""
    used, limit, endless = Counter[str](), Counter[str](), set[str]()
    for consumer in (each for worker in look.workers if not worker.stale for each in worker.consumers):
        used[consumer.queue] += consumer.credit_used
        limit[consumer.queue] += consumer.credit_limit
        if not consumer.credit_limit:
            endless.add(consumer.queue)
    held = _gauge("credit_used", "Messages that live consumers held at their last heartbeats.", "queue")
    most = _gauge("credit_limit", "The most that they hold at a time; absent if one has no limit.", "queue")
    for name in (queue.name for queue in look.queues if queue.name in used):
        held.add_metric([name], used[name])
        if name not in endless:
            most.add_metric([name], limit[name])
    yield from (held, most)


def _limits(look: Scrape) -> Iterator[Metric]:
    """Yield how many keys are over their limits. Their names are the publishers', and no labels."""
    waiting = _gauge("limit_waiting_keys", "Keys over a limit, for which messages are parked.", "queue", "limit")
    for queue, limit, number in look.waiting:
        waiting.add_metric([queue, limit], number)
    yield waiting


def _site(look: Scrape) -> Iterator[Metric]:
    """Yield the figures of the site."""
    alive = [worker for worker in look.workers if not worker.stale]
    sessions = _gauge("workers", "Worker sessions, alive or past their deadline.", "state")
    sessions.add_metric(["alive"], len(alive))
    sessions.add_metric(["stale"], len(look.workers) - len(alive))
    yield sessions
    held = sum(worker.held for worker in look.workers)
    yield _single("held_messages", "Messages that worker sessions held at their last heartbeats.", held)
    busy, slots = (sum(getattr(worker, name) or 0 for worker in alive) for name in ("busy", "slots"))
    yield _single("busy_slots", "Messages that live workers handled at their last heartbeats.", busy)
    yield _single("slots", "Messages that live workers can handle at a time.", slots)
    yield _single("queues", "Queues there are, with and without series of their own.", look.number)
    summed = "summed_up_seconds", "Time since the end of the last minute that a worker has summed up."
    if look.summed_up_seconds is None:
        yield _gauge(*summed)
    else:
        yield _single(*summed, look.summed_up_seconds)


def _extensions(look: Scrape) -> Iterator[Metric]:
    """Yield how much the extensions have found."""
    findings = _gauge("extension_findings", "What extensions have found.", "extension", "level")
    counted = Counter((name, finding.level) for name, finding in look.found)
    for name in dict.fromkeys(each.name for each in conf.load().EXTENSIONS if each.findings):
        for level in (Level.PROBLEM, Level.NOTICE):
            findings.add_metric([name, level.value], counted[name, level])
    yield findings


def _receivers(look: Scrape) -> Iterator[Metric]:
    """Yield what the receivers do, and what has come through them."""
    does = _gauge("receiver_receives", "1 if the receiver receives from the other broker.", "receiver")
    messages = _gauge("receiver_messages", "What has come from the other broker.", "receiver", "kind")
    for receiver, row, condition, _ in look.receivers:
        does.add_metric([receiver.name], float(condition is ReceiverCondition.RECEIVES))
        for kind in ("received", "duplicates", "kept"):
            messages.add_metric([receiver.name, kind], 0 if row is None else getattr(row, kind))
    yield from (does, messages)


def _bridges(look: Scrape) -> Iterator[Metric]:
    """Yield what the bridges do, and what waits for them."""
    does = _gauge("bridge_forwards", "1 if a worker is connected to the bridge's broker.", "bridge")
    links = _gauge("bridge_connections", "Connections of live workers to the bridge's broker.", "bridge", "state")
    oldest = _gauge(
        "bridge_oldest_ready_seconds", "Seconds for which the oldest message waits for the bridge.", "bridge"
    )
    rate = _gauge("bridge_rate", "Messages a second that the bridge forwarded in the last seconds.", "bridge")
    connected = BridgeLink.LinkState.CONNECTED.value
    for bridge in look.bridges:
        states = Counter(link.state for link in bridge.links)
        does.add_metric([bridge.name], float(states[connected] > 0))
        for state in BridgeLink.LinkState.values:
            links.add_metric([bridge.name, state], states[state])
        oldest.add_metric([bridge.name], bridge.oldest_seconds)
        rate.add_metric([bridge.name], bridge.per_second)
    yield from (does, links, oldest, rate)


def _single(name: str, help_text: str, value: float) -> Metric:
    gauge = _gauge(name, help_text)
    gauge.add_metric([], value)
    return gauge


def _gauge(name: str, help_text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"django_mq_{name}", help_text, labels=labels)
