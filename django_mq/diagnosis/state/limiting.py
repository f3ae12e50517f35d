"""What limits the delivery of a queue now, and how full its limits by key are.

The figures of keys take five statements, each of a bounded number of rows, and one for each key that waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from django_mq import conf
from django_mq.diagnosis.state.alerts import facts_of
from django_mq.engine.decisions.claim_limits import Fill
from django_mq.engine.decisions.keyed_limits import LimitFacts
from django_mq.engine.decisions.limiting_factor import Factor, limited_by
from django_mq.engine.decisions.rates import Used
from django_mq.models import LimitException, LimitKey
from django_mq.stores.registry import shared_store
from django_mq.stores.sql.rates import allowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django_mq.diagnosis.state.fleet import Supply
    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.diagnosis.state.waiting_keys import WaitingKey

#: How many keys that do not wait are read.
MOST_KEYS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitNow:
    """What limits the delivery of a queue now."""

    factor: Factor
    state: QueueState
    supply: Supply
    #: How many of the first ready messages no consumer wants.
    unwanted: int = 0
    #: If a limit by key limits it: the key for which most messages are parked, and how much it has used.
    key: WaitingKey | None = None
    fill: Fill | None = None


def limit_now(
    state: QueueState,
    supply: Supply,
    unwanted: int = 0,
    waiting: Sequence[WaitingKey] = (),
    fills: Iterable[Fill] = (),
) -> LimitNow:
    """Return what limits the delivery of a queue, of figures that are known already: no statement."""
    factor = limited_by(facts_of(state, supply, unwanted))
    key = max(waiting, key=lambda one: one.parked, default=None) if factor is Factor.KEYS else None
    of_key = [one for one in fills if key is not None and (one.limit, one.key) == (key.limit, key.key)]
    fill = of_key[0] if of_key else None
    return LimitNow(factor=factor, state=state, supply=supply, unwanted=unwanted, key=key, fill=fill)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitGauge:
    """A limit by key: the key that is fullest, and of how many keys what is known, full, and waiting."""

    fullest: Fill
    keys: int
    full: int
    waiting: int


def gauges_of(fills: Iterable[Fill], waiting: Mapping[str, int]) -> list[LimitGauge]:
    """Return a gauge for each limit, the fullest first; ``waiting`` is how many keys wait, by limit."""
    by_limit: dict[str, list[Fill]] = {}
    for fill in fills:
        by_limit.setdefault(fill.limit, []).append(fill)
    found = [
        LimitGauge(
            fullest=max(some, key=lambda one: (one.share, one.used)),
            keys=len(some),
            full=sum(one.is_full for one in some),
            waiting=waiting.get(name, 0),
        )
        for name, some in by_limit.items()
    ]
    return sorted(found, key=lambda gauge: (-gauge.fullest.share, gauge.fullest.limit))


def fills_of(queue: str, waiting: Sequence[WaitingKey], *, using: str) -> list[Fill]:
    """Return how much keys of a queue have used: of those that run and wait, and of the first others."""
    store = shared_store(using)
    running = store.rates.running(queue)
    rows = LimitKey.objects.using(using).filter(queue_name=queue)
    first = list(rows.order_by("queue_name", "limit_name", "limited_key")[:MOST_KEYS])
    named = rows.filter(limited_key__in={one.key for one in waiting}).order_by()
    known = {(row.limit_name, row.limited_key): row for row in [*first, *(named if waiting else ())]}
    if not running and not known:
        return []
    keys = {key for _limit, key in {*running, *known}}
    exceptions = LimitException.objects.using(using).filter(queue_name=queue, limited_key__in=keys).order_by()
    now = datetime.now(UTC) + timedelta(seconds=store.database.now_skew_seconds())
    facts = LimitFacts(
        now=now.timestamp(),
        used={place: Used(row.free_at, row.seen_at) for place, row in known.items()},
        held={},
        allowed={
            (row.limit_name, row.limited_key): allowed(row.amount, row.seconds, row.burst, row.at_once)
            for row in exceptions
        },
        running=running,
        waiting={place: row.waiting_until for place, row in known.items() if row.waiting_until is not None},
    )
    limits = [each.opened(store, queue, facts) for each in conf.extensions().limits if each.is_for(queue)]
    found = {(fill.limit, fill.key): fill for each in limits for fill in each.fills()}
    # What only the code of the workers declares.
    for place, count in running.items():
        found.setdefault(place, Fill(*place, count, None, runs=True))
    return sorted(found.values(), key=lambda fill: (fill.limit, -fill.share, -fill.used, fill.key))
