"""Messages that a program names by their ids: change them, and say what happened to each."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django_mq import conf
from django_mq.delivery import validation
from django_mq.delivery.operator import actions, begun_runs, redrives
from django_mq.delivery.operator.answers import Answer, Effect
from django_mq.delivery.operator.recalls import recalled
from django_mq.delivery.queues import declare, record_of
from django_mq.engine.states import CLAIMED, State
from django_mq.errors import ConfigurationError, InvalidMessage
from django_mq.models import Message
from django_mq.stores.clock import clock
from django_mq.stores.registry import MEMORY, shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.delivery.operator.answers import MessageIds
    from django_mq.stores.records import Moved


class Named:
    """The messages with these ids, in one queue or in all."""

    def __init__(self, message_ids: MessageIds, queue: str | None, using: str | None) -> None:
        """Check what the caller has given. Raises InvalidMessage, UnknownQueue and ConfigurationError."""
        self._alias = using or conf.load().DATABASE
        if self._alias == MEMORY:
            raise ConfigurationError("Messages of queues in memory have no rows to change; use a database.")
        self._ids = _checked(message_ids)
        self._store = shared_store(self._alias)
        self._queue = None if queue is None else self._existing(queue)

    def cancel(self, *, running: bool) -> list[Answer]:
        """Remove those that no worker has begun, and have workers stop the others if ``running``.

        A Celery task that was acknowledged when it began is found by the heartbeat of its worker.
        """

        def cancelled(rows: Sequence[ActionTarget]) -> dict[int, str]:
            gone = set(actions.cancel(rows, using=self._alias))
            return {row.id: row.queue for row in rows if row.id in gone}

        return self._change("cancel", cancelled, recalls=not running, stops=running)

    def move(self, to: str) -> list[Answer]:
        """Move them to the tail of another queue. Raises UnknownQueue, QueueClosed and QueueFull."""
        target = self._target(to)

        def moved(rows: Sequence[ActionTarget]) -> dict[int, str]:
            others = [row for row in rows if row.queue != target]
            return _now(actions.move(others, target, using=self._alias))

        return self._change("move", moved, recalls=True)

    def redrive(self, to: str | None) -> list[Answer]:
        """Redrive the dead letters among them. Raises UnknownQueue and QueueClosed for ``to``."""
        target = None if to is None else self._target(to)
        among = redrives.redrivable(target, using=self._alias)

        def redriven(rows: Sequence[ActionTarget]) -> dict[int, str]:
            found = Message.objects.using(self._alias).filter(among, pk__in=[row.id for row in rows])
            ids = list(found.order_by("pk").values_list("pk", flat=True))
            return _now(redrives.redrive_rows(ids, to=target, using=self._alias).moved)

        return self._change("redrive", redriven)

    def reschedule(
        self, deliver_at: datetime | None, delay: timedelta | float | None, *, now: bool
    ) -> list[Answer]:
        """Deliver them at a time, after a delay, or now. Raises InvalidMessage."""
        if (deliver_at is not None) + (delay is not None) + bool(now) != 1:
            raise InvalidMessage("Say when to deliver the messages: give one of deliver_at, delay and now=True.")
        if now:
            return self._change("deliver_now", lambda rows: _now(actions.deliver_now(rows, using=self._alias)))
        due = due_at(deliver_at, delay)
        return self._change("reschedule", lambda rows: _now(actions.reschedule(rows, due, using=self._alias)))

    def release(self) -> list[Answer]:
        """Take them from their workers."""
        return self._change("release", lambda rows: _now(actions.release(rows, using=self._alias)))

    def _existing(self, queue: str) -> str:
        """Return the name of a queue; a declared one that was never used is created. Raises UnknownQueue."""
        name = validation.existing(queue)
        if name in conf.load().QUEUES and self._store.queues.find(name) is None:
            declare(self._store, name)
        return record_of(self._store, name).name

    def _target(self, name: str) -> str:
        target = self._existing(name)
        redrives.check_target(target, using=self._alias)
        return target

    def _change(
        self,
        action: str,
        act: Callable[[Sequence[ActionTarget]], dict[int, str]],
        *,
        recalls: bool = False,
        stops: bool = False,
    ) -> list[Answer]:
        """Change those in a state that the action is for, all of them or none.

        ``act`` returns by row id in which queue a message is now that it has changed. With ``recalls``, workers
        give back before what they have not begun; with ``stops``, they stop what they hold then.
        """
        queues = {row.queue for row in self._rows() if row.state == CLAIMED} if recalls else set()
        with recalled(queues, using=self._alias), self._store.database.transaction():
            rows = self._rows()
            changed = act([row for row in rows if State(row.state) in actions.STATES[action]])
            left = [row for row in rows if row.id not in changed]
            now = {row.id: row for row in self._rows()} if left else {}
            held = [row for row in now.values() if stops and row.state == CLAIMED]
            asked = actions.stop(held, using=self._alias) if held else []
            gone = [id_ for id_ in self._ids if id_ not in {row.message_id for row in rows}] if stops else []
            begun = begun_runs.stop(gone, self._queue, using=self._alias)
        effects = {row.id: _left(now.get(row.id), action) for row in left} | dict.fromkeys(asked, Effect.STOPPING)
        answers = {id_: list[Answer]() for id_ in self._ids}
        for row in rows:
            queue, effect = changed.get(row.id, row.queue), effects.get(row.id, Effect.DONE)
            answers[row.message_id].append(Answer(row.message_id, queue, effect))
        for id_, queue in begun.items():
            answers[id_].append(Answer(id_, queue, Effect.STOPPING))
        return [one for id_, found in answers.items() for one in found or [Answer(id_, "", Effect.MISSING)]]

    def _rows(self) -> list[ActionTarget]:
        messages = Message.objects.using(self._alias).order_by("queue__name")
        if self._queue is not None:
            messages = messages.filter(queue__name=self._queue)
        chunks = (self._ids[start : start + actions.CHUNK] for start in range(0, len(self._ids), actions.CHUNK))
        return [row for ids in chunks for row in actions.rows_of(messages.filter(message_id__in=ids))]


def due_at(deliver_at: datetime | None, delay: timedelta | float | None, delay_name: str = "delay") -> datetime:
    """Return the time at which to deliver: the given one, or so long from now. Raises InvalidMessage."""
    at, seconds = validation.moment(deliver_at, delay, "deliver_at", delay_name)
    return at if at is not None else validation.aware(clock.now() + timedelta(seconds=seconds or 0.0), delay_name)


def _now(moved: Iterable[Moved]) -> dict[int, str]:
    return {each.id: each.queue for each in moved}


def _left(row: ActionTarget | None, action: str) -> Effect:
    """Say why the action has not changed a message, by its row as it is now."""
    if row is None:
        return Effect.ENDED
    is_held = row.state == CLAIMED and CLAIMED not in actions.STATES[action]
    return Effect.HELD if is_held else Effect.UNCHANGED


def _checked(given: MessageIds) -> list[UUID]:
    """Return each id once. Raises InvalidMessage."""
    each = [given] if isinstance(given, UUID | str) else given
    try:
        found = [validation.message_id(one) for one in each]
    except TypeError:
        raise InvalidMessage(f"Give the id of a message, or several, not {given!r}.") from None
    if None in found:
        raise InvalidMessage("The id of a message is None; give what publish() has returned.")
    return list(dict.fromkeys(id_ for id_ in found if id_ is not None))
