"""The six figures of all queues, from a state that is known already, and the figures of extensions."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from django.db import transaction
from django.utils.translation import gettext as _

from django_mq import conf
from django_mq.diagnosis.language import rate
from django_mq.diagnosis.state.alerts import LATE_SECONDS
from django_mq.diagnosis.state.fleet import fleet, slots_in_use
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.running import unusual
from django_mq.engine.decisions.limiting_factor import is_used_up
from django_mq.formats import COUNT_LIMIT
from django_mq.rollups.series import COUNTED, Rates, recent_rates
from django_mq.seams.tiles import Tile, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from django_mq.diagnosis.state.fleet import WorkerStatus
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.diagnosis.state.running import RunningMessage
    from django_mq.rollups.series import Recent

    Look = Callable[[str], Iterable[Tile]]

logger = logging.getLogger("django_mq.tiles")

#: The list of messages that are dead letters.
DEAD_LETTERS: Final = {"state": "letters"}


def measured(alias: str) -> list[Tile]:
    """Return all figures."""
    states, recent, workers = overview(using=alias), recent_rates(using=alias), fleet(using=alias)
    return [*of_queues(states, recent, workers, unusual(using=alias)), *of_extensions(alias)]


def of_queues(
    states: Sequence[QueueState],
    recent: Recent,
    workers: Iterable[WorkerStatus],
    running: Sequence[RunningMessage],
) -> list[Tile]:
    """Return the six figures. ``running`` is what runs unusually long, the most unusual first."""
    return [_waiting(states), *_traffic(recent), _dead(states), _slots(workers), _long_running(running)]


def _waiting(states: Iterable[QueueState]) -> Tile:
    """Return how long the oldest message has waited for a worker, in queues that are not paused."""
    waits = [state for state in states if state.waited_seconds and not state.paused]
    oldest = max(waits, key=lambda state: state.waited_seconds, default=None)
    seconds = oldest.waited_seconds if oldest else 0.0
    return Tile(
        name="waiting",
        title=_("Longest wait"),
        value=seconds,
        unit=Unit.SECONDS,
        is_least=oldest is not None and not oldest.is_oldest_exact,
        note=oldest.name if oldest else _("no message waits"),
        bad=seconds > LATE_SECONDS,
        page="charts",
        filters={"queue": oldest.name} if oldest else {},
    )


def _traffic(recent: Recent) -> Iterator[Tile]:
    """Yield how many messages finish and how many attempts fail in a second of the newest minutes."""
    known = bool(recent.minutes)
    sums = {name: sum(getattr(rates, name) for rates in recent.rates.values()) for name in COUNTED}
    total = Rates(**sums)
    yield Tile(
        name="throughput",
        title=_("Finished"),
        value=total.accepted if known else None,
        unit=Unit.RATE,
        note=_("%(rate)s/s published") % {"rate": rate(total.arrived)} if known else "",
        page="charts",
    )
    yield Tile(
        name="failures",
        title=_("Failures"),
        value=total.failed if known else None,
        unit=Unit.RATE,
        note=_("%(rate)s/s redelivered") % {"rate": rate(total.redelivered)} if known else "",
        bad=total.failed > total.accepted,
        model="failuregroup",
    )


def _dead(states: Sequence[QueueState]) -> Tile:
    """Return the dead letters that no operator has acknowledged, of all."""
    new = sum(state.new_dead_letters for state in states)
    return Tile(
        name="dead",
        title=_("New dead letters"),
        value=new,
        of=sum(state.dead_letters for state in states),
        is_least=any(max(state.dead, state.dead_letters_of_others) >= COUNT_LIMIT for state in states),
        bad=new > 0,
        model="message",
        filters=DEAD_LETTERS,
    )


def _slots(workers: Iterable[WorkerStatus]) -> Tile:
    workers = list(workers)
    slots = slots_in_use(workers)
    alive = sum(not worker.stale for worker in workers)
    return Tile(
        name="slots",
        title=_("Busy slots"),
        value=slots.used,
        of=slots.of,
        note=_("no worker is alive") if not alive else _("no worker reports its slots") if not slots.of else "",
        bad=not alive or is_used_up(slots.used, slots.of),
        model="workersession",
    )


def _long_running(running: Sequence[RunningMessage]) -> Tile:
    return Tile(
        name="long_running",
        title=_("Long-running"),
        value=len(running),
        note=running[0].type or running[0].handler if running else "",
        bad=bool(running),
        model="workersession",
        page="running",
    )


def of_extensions(alias: str) -> list[Tile]:
    """Return the figures of extensions, whose names are put before theirs. What fails is logged, and left out."""
    looks = [(extension.name, look) for extension in conf.load().EXTENSIONS for look in extension.tiles]
    try:
        return _of_looks(looks, alias)
    except Exception:  # noqa: BLE001 - the look that failed fails again by itself, and is logged
        return [tile for look in looks for tile in _of_one(look, alias)]


def _of_looks(looks: Iterable[tuple[str, Look]], alias: str) -> list[Tile]:
    # An error of a statement must not spoil the transaction of a page.
    with transaction.atomic(using=alias):
        return [replace(tile, name=f"{name}_{tile.name}") for name, look in looks for tile in look(alias)]


def _of_one(look: tuple[str, Look], alias: str) -> list[Tile]:
    try:
        return _of_looks([look], alias)
    except Exception:
        logger.exception("The tiles of the extension %r cannot be shown", look[0])
        return []
