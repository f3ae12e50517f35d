"""Sum up by tenant each minute that the rollups have summed up, again when they have, and count what waits."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django_mq.engine.rollups import MINUTE, PARTS, RECOUNTED, SETTLING, begin_of, closed
from django_mq.engine.tenants import ALL_QUEUES, KEPT, is_count_due, merged, rows_for_one
from django_mq.rollups.duty import now_of
from django_mq.stores.sql.tenants import NOW, TenantMark, TenantsOf
from django_mq.tenants.declared import queues_with, tenant_key

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

#: How far back the duty looks for minutes: those that the rollups count again are younger.
LOOK_BACK = MINUTE * (max(RECOUNTED) + 10)


def sum_up(store: Any, limit: int) -> dict[str, int]:
    """Sum up the newest minutes that are missing or have more rows now; return how many."""
    key = tenant_key() if store.features.durable else None
    if key is None:
        return {"summed_up": 0}
    store.tenants.forget_other_keys(key)
    tenants = TenantsOf(key, [queue.name for queue in queues_with(key, using=store.alias)])
    now = now_of(store)
    _count_waiting(store, tenants, now)
    current = begin_of(now - SETTLING, MINUTE)
    known = store.tenants.known(MINUTE, current - LOOK_BACK)
    marks = store.rollups.known(current - LOOK_BACK)
    wanted = [minute for minute, mark in marks.items() if mark.counted != _counted(known.get(minute))][-limit:]
    for minute in wanted:
        mark = TenantMark(marks[minute].counted, rows_for_one(marks[minute].counted))
        found = store.tenants.sums(minute, tenants, mark.every) if tenants.queues else {}
        store.tenants.write(key, MINUTE, minute, found, mark)
    _add_up(store, key, wanted, current)
    return {"summed_up": len(wanted)}


def _counted(mark: TenantMark | None) -> int | None:
    return None if mark is None else mark.counted


def _count_waiting(store: Any, tenants: TenantsOf, now: datetime) -> None:
    """Count what waits by tenant, unless the last count has found so much that it is too early."""
    before = store.tenants.counted_waiting()
    if before is None or is_count_due(before.messages, now - before.time):
        store.tenants.write_waiting(
            tenants.key, now, store.tenants.count_waiting(tenants) if tenants.queues else {}
        )


def _add_up(store: Any, key: str, changed: Collection[datetime], current: datetime) -> None:
    """Write the longer steps that hold these minutes, or are over and not known yet, also before a gap."""
    since = current - max(KEPT.values())
    for step, part in PARTS.items():
        known = store.tenants.known(step, since)
        known_parts = store.tenants.known(part, since)
        begins = closed(step, known_parts, current)
        for begin in {*closed(step, changed, current), *(begin for begin in begins if begin not in known)}:
            parts = store.tenants.steps(part, begin, begin + step)
            every = max(
                (known_parts[each].every for each in known_parts if begin_of(each, step) == begin), default=1
            )
            store.tenants.write(key, step, begin, merged(parts), TenantMark(0, every))


def prune(store: Any, limit: int) -> int:
    """Delete figures that are too old, and those of queues whose history is not kept so long; return how many."""
    if not store.features.durable:
        return 0
    now = now_of(store)
    # Without the key, no new count of what waits replaces the last one.
    kept = {NOW: timedelta(days=1), **KEPT}
    pruned: int = sum(store.tenants.prune(step, now - age, limit) for step, age in kept.items())
    for days, names in _names_by_history_days(store.alias).items():
        for step, age in KEPT.items():
            if timedelta(days=days) < age:
                pruned += store.tenants.prune(step, now - timedelta(days=days), limit, names)
    return pruned


def _names_by_history_days(alias: str) -> dict[float, list[str]]:
    """Return the queues by how long their history is kept, with the figures of all queues beside the longest."""
    key = tenant_key()
    found: defaultdict[float, list[str]] = defaultdict(list)
    for queue in queues_with(key, using=alias) if key is not None else ():
        found[queue.history_days].append(queue.name)
    if found:
        found[max(found)].append(ALL_QUEUES)
    return found
