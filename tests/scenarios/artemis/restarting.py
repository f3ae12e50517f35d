"""The step that restarts the broker: what a store has kept is read into a new one.

Rows are the durable messages of durable queues, with their attempts as of their latest return:
an attempt that was under way at the stop was not written. Duplicate ids, settings and
persisted pauses are kept, too. Everything else is lost.
"""

from typing import TYPE_CHECKING, NamedTuple

from django_mq.engine.states import READY
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.entries.entry import Entry
from tests.scenarios.errors import UnfitError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from django_mq.inprocess.queue import Queue
    from tests.scenarios.artemis.stage import Stage
    from tests.scenarios.fields import Fields


class Kept(NamedTuple):
    """What outlives the restart of one queue."""

    rows: list[Entry]
    duplicate_ids: "list[Hashable]"
    paused: bool


def restart(stage: "Stage", step: "Fields") -> None:
    """Stop without warning, and load."""
    down_until = step.want("down_until", float, stage.now)
    if stage.environment.store:
        _reap(stage, down_until)
    else:
        _reload(stage, down_until)


def _reap(stage: "Stage", down_until: float) -> None:
    """Nothing is loaded: the rows are where they were, and only their consumers are gone."""
    if stage.volatile or any(not stage.is_durable(queue) for queue in stage.broker):
        raise UnfitError("every stored message is durable")
    stage.units, stage.now = {}, max(stage.now, down_until)
    stage.broker.restart(stage.now)


def _reload(stage: "Stage", down_until: float) -> None:
    rows = {queue.name: _rows(stage, queue) for queue in stage.broker}
    for unit in stage.units.values():
        unit.rollback(stage.now)  # in the broker that is lost: only what it has reserved matters
    kept = {name: Kept(each, _duplicates(stage, name), _stays_paused(stage, name)) for name, each in rows.items()}
    stage.broker, stage.units, stage.now = Broker(), {}, max(stage.now, down_until)
    for name in kept:
        stage.declare(name, stage.settings[name])
    for name, each in kept.items():
        _load(stage.broker.queue(name), each)


def _rows(stage: "Stage", queue: "Queue") -> list[Entry]:
    if not stage.is_durable(queue):
        return []
    kept = [entry for entry in queue.entries() if entry.message.id not in stage.volatile]
    # What was held stands before a later value of its key: it must not replace that.
    return [_row(entry) for entry in sorted(kept, key=lambda entry: not entry.is_claimed)]


def _row(entry: Entry) -> Entry:
    return Entry(
        entry.message,
        level=entry.level,
        place=entry.place,
        arrival=entry.arrival,
        state=READY if entry.is_claimed else entry.state,
        due_at=entry.due_at,
        attempts=entry.attempts - entry.is_claimed,
        redelivered=entry.redelivered,
    )


def _duplicates(stage: "Stage", name: str) -> "list[Hashable]":
    return list(stage.broker.queue(name).duplicate_ids)


def _stays_paused(stage: "Stage", name: str) -> bool:
    return name in stage.paused_for_good and stage.is_durable(stage.broker.queue(name))


def _load(queue: "Queue", kept: Kept) -> None:
    if kept.paused:
        queue.control.pause()
    for duplicate_id in kept.duplicate_ids:
        queue.duplicate_ids.add(duplicate_id)
    for row in kept.rows:
        queue.offer(row)
    queue.reset_statistics()
