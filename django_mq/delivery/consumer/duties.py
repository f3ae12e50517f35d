"""The duties of maintenance: what is to do, and how to run it once.

A duty is a few bounded statements, which many processes may run at once.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from django_mq import conf
from django_mq.delivery.consumer.unit_of_work import unit_of_work
from django_mq.delivery.queues import declare_all
from django_mq.notifications.base import News
from django_mq.notifications.registry import notifier
from django_mq.seams.extension import Duty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.delivery")

#: Workers of a queue that are woken at most when messages came back.
CROWD = 100
#: So many waits for an answer fit into the deadline of a session, which is then renewed over another connection.
ANSWERS = 3


def reap_dead(store: Store, _limit: int, *, spare: int = 0) -> dict[str, int]:
    """Give back the messages of sessions past their deadline, except ``spare``."""
    shortened, reaped = store.sessions.shorten_deadlines(), store.sessions.reap(spare=spare)
    for session in reaped:
        logger.warning(
            "Session %s (%r) is dead: %s messages given back", session.session_id, session.name, session.released
        )
    released = sum(session.released for session in reaped)
    return {"shortened": shortened, "reaped": len(reaped), "released": released}


def end_stuck(store: Store, seconds: float) -> int:
    """End the connections of workers that have not taken an answer for so long; return how many."""
    ended = store.server.end_stuck(seconds)
    for worker in ended:
        logger.warning(
            "A connection of worker %s was ended: the worker took no answer for %g s, and kept its locks",
            worker,
            seconds,
        )
    return len(ended)


def delete_unused(store: Store, _limit: int) -> dict[str, int]:
    """Delete the queues that no worker uses, if their options say so."""
    deleted = store.deletions.delete_unused()
    for name, messages in deleted.items():
        logger.info("Queue %r is deleted: no worker uses it. It held %s messages", name, messages)
    return {"deleted": len(deleted)}


REAP: Final = Duty(name="reap", run=reap_dead, announces=True)
END_STUCK: Final = Duty(
    name="end_stuck", run=lambda store, _limit: {"ended": end_stuck(store, conf.load().SESSION_SECONDS)}
)
#: In a worker; the command ``mq_maintenance`` continues the operations itself.
TAKE_OVER: Final = Duty(name="take_over", run=lambda _store, _limit: 0, leader_only=True)
#: The duties in their order. ``Store.due_duties`` says of most of them whether they have something to do.
DUTIES: Final = (
    Duty(
        name="declare",
        run=lambda store, _limit: {"declared": len(declare_all(store))},
        interval_seconds=math.inf,
    ),
    END_STUCK,
    # What has expired, was replaced or is not wanted, or was in a deleted queue, may be ready in another queue. A
    # dead session may have held a group or a consumer slot.
    REAP,
    Duty(name="promote", run=lambda store, limit: {"promoted": store.maintenance.promote(limit)}, announces=True),
    Duty(name="expire", run=lambda store, limit: {"expired": store.maintenance.expire(limit)}, announces=True),
    Duty(
        name="bury_unwanted",
        run=lambda store, _limit: {"unwanted": store.maintenance.bury_unwanted()},
        announces=True,
    ),
    Duty(name="cover", run=lambda store, _limit: {"uncovered": int(store.maintenance.cover())}, limit=1),
    Duty(name="trim", run=lambda store, _limit: {"trimmed": store.maintenance.trim()}, announces=True),
    Duty(name="delete_unused", run=delete_unused, announces=True),
    TAKE_OVER,
    Duty(
        name="prune",
        run=lambda store, limit: {"pruned": store.retention.prune(limit)},
        limit=5000,
        interval_seconds=300,
        leader_only=True,
    ),
)
#: After an outage these are left out for one deadline: no session could be renewed.
LEFT_OUT_AFTER_OUTAGE: Final = {REAP, END_STUCK}


def added_duties() -> tuple[Duty, ...]:
    """Return the duties of the extensions."""
    return tuple(_guarded(duty, each.name) for each in conf.load().EXTENSIONS for duty in each.duties)


def _guarded(duty: Duty, extension: str) -> Duty:
    """Return a duty of an extension so that its errors, and what it leaves on connections, harm no other duty."""
    name = f"{extension}.{duty.name}"

    def run(store: Store, limit: int) -> Mapping[str, int]:
        try:
            with unit_of_work():
                changed = duty.run(store, limit)
        except Exception:
            logger.exception("The duty %s of maintenance failed, and runs again in its next interval", name)
            return {}
        if isinstance(changed, Mapping):
            return {f"{name}.{key}": number for key, number in changed.items()}
        return {name: changed}

    return replace(duty, name=name, run=run, is_due=duty.is_due and partial(_is_due, name, duty.is_due))


def _is_due(name: str, asked: Callable[[Store], bool], store: Store) -> bool:
    try:
        return asked(store)
    except Exception:
        logger.exception("The duty %s of maintenance cannot say whether it is due, and does not run", name)
        return False


def ask(store: Store) -> Mapping[str, bool]:
    """Return of some duties, by name, whether they have something to do."""
    with store.database.answering_within(conf.load().SESSION_SECONDS / ANSWERS):
        return store.maintenance.due_duties()


def run_duties(
    store: Store, duties: Iterable[Duty], asked: Mapping[str, bool] | None = None
) -> dict[Duty, Mapping[str, int]]:
    """Run the duties that have something to do, each once; return how many rows each changed, by name.

    ``asked`` is what ``ask`` has returned, if that is known.
    """
    asked = ask(store) if asked is None else asked
    done = {duty: run_duty(store, duty) for duty in duties if asked.get(duty.name, True)}
    announce_after(store, done)
    return done


def run_maintenance_to_the_end(store: Store) -> Counter[str]:
    """Run the duties until nothing is left to do; return how many rows were changed, by name."""
    duties: Sequence[Duty] = (*DUTIES, *added_duties())
    total: Counter[str] = Counter()
    while duties:
        done = run_duties(store, duties)
        total += total_of(done)
        duties = unfinished(done)
    return total


def run_duty(store: Store, duty: Duty) -> Mapping[str, int]:
    """Return how many rows the duty changed, by name."""
    changed = duty.run(store, duty.limit)
    return changed if isinstance(changed, Mapping) else {duty.name: changed}


def total_of(done: Mapping[Duty, Mapping[str, int]]) -> Counter[str]:
    """Return how many rows all duties together changed, by name."""
    total: Counter[str] = Counter()
    for changed in done.values():
        total.update(changed)
    return total


def unfinished(done: Mapping[Duty, Mapping[str, int]]) -> list[Duty]:
    """Return the duties that changed as many rows as they may at a time."""
    return [duty for duty, changed in done.items() if max(changed.values(), default=0) >= duty.limit]


def announce_after(store: Store, done: Mapping[Duty, Mapping[str, int]]) -> None:
    """Announce every queue that has ready messages, if a duty may have made some ready."""
    if any(duty.announces and any(changed.values()) for duty, changed in done.items()):
        counted = store.queues.counts(limit=CROWD)
        ready = {name: News(messages=counts.ready, back=True) for name, counts in counted.items() if counts.ready}
        if ready:
            notifier().announce(ready, over=store)
