"""Sleeps that end early, because a program or an operator says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django_mq.delivery import validation
from django_mq.delivery.operator import actions
from django_mq.durable.events import park_key
from django_mq.durable.models import DurableStep
from django_mq.engine.decisions.durable import StepKind, StepOutcome
from django_mq.engine.states import PARKED, State
from django_mq.errors import InvalidMessage, NotAsleep
from django_mq.models import Message
from django_mq.stores.registry import database_store, shared_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.stores.records import Moved

#: The key with which messages are parked that sleep. Nothing frees it.
ASLEEP: Final = "durable sleep"
#: The states of messages that may sleep.
STATES: Final = frozenset({PARKED})


def is_of_handler(key: str | None) -> bool:
    """Whether a message with this key is parked because its durable handler sleeps, or waits for an event."""
    return key is not None and (key == ASLEEP or key.startswith(park_key("")))


def wake(message_id: UUID | str, *, alias: str) -> None:
    """Let the handlers of a message go on that sleep. Raises NotAsleep. ``django_mq.api`` has the promises."""
    store = database_store(alias, "durable handlers")
    id_ = validation.message_id(message_id)
    if id_ is None:
        raise InvalidMessage("The id of a message is None; give what publish() has returned.")
    with store.database.transaction():
        if not wake_rows(actions.rows_of(Message.objects.using(alias).filter(message_id=id_)), using=alias):
            raise NotAsleep(f"Nothing was done: {_why(id_, alias)}")


def wake_rows(rows: Sequence[ActionTarget], *, using: str) -> list[Moved]:
    """Let the handlers of those messages go on that sleep."""
    with shared_store(using).database.transaction():
        # Messages before records, as a handler locks them. Locked, so that each database shows what has committed.
        messages = Message.objects.using(using).filter(pk__in=[row.id for row in rows], park_key=ASLEEP)
        asleep = set(
            messages.filter(state=PARKED.value).order_by("pk").select_for_update().values_list("pk", flat=True)
        )
        chosen = [row for row in rows if row.id in asleep]
        if chosen:
            _end(chosen, using)
        return actions.deliver_now(chosen, using=using)


def _end(rows: Sequence[ActionTarget], using: str) -> None:
    """Record of these messages, which sleep, that their sleep has ended early."""
    steps = DurableStep.objects.using(using).filter(kind=StepKind.SLEEP.value, outcome=StepOutcome.OPEN.value)
    steps = steps.filter(
        message_id__in=[row.message_id for row in rows], queue_name__in={row.queue for row in rows}
    )
    found = steps.order_by("message_id", "queue_name", "place").select_for_update()
    # Sleeps that are over stay open: the last one is that of now.
    last = {(message, queue): pk for message, queue, pk in found.values_list("message_id", "queue_name", "pk")}
    ended = [pk for of, pk in last.items() if of in {(row.message_id, row.queue) for row in rows}]
    DurableStep.objects.using(using).filter(pk__in=ended).update(outcome=StepOutcome.WOKEN.value)


def _why(message_id: UUID, alias: str) -> str:
    """Say why a message is not woken."""
    found = Message.objects.using(alias).filter(message_id=message_id).order_by("pk").first()
    if found is None:
        return f"there is no message {message_id}. Correct the id, or it has been handled to the end."
    waits = DurableStep.objects.using(alias).filter(message_id=message_id, event__isnull=False)
    for step in waits.filter(outcome=StepOutcome.OPEN.value):
        if found.park_key == park_key(step.event_id or 0):
            return (
                f"the handler of {message_id} waits for the event {f'{step.name} {step.key}'.strip()!r}. Emit it."
            )
    return f"no handler of {message_id} sleeps, its message is {State(found.state).name.lower()}."
