"""Events: ``emit``, and what waits for them.

Each emit and each wait locks the row of the event until its transaction ends, so one of both sees the other.
A wait also changes the row. Where the database shows a transaction what was there when it began, an emit that
could miss the wait fails instead, and its transaction is repeated by its caller.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db import connections, transaction

from django_mq import conf
from django_mq.delivery import hints
from django_mq.delivery.codecs import encode_json
from django_mq.delivery.validation import oversize, seconds
from django_mq.durable.models import DurableEvent, DurableStep
from django_mq.engine.decisions.durable import NAME_LENGTH, StepOutcome
from django_mq.engine.options import Option, is_storable
from django_mq.errors import BodyNotSerialisable, InvalidMessage, UnusableEvent, shown
from django_mq.formats import PLAIN
from django_mq.stores.clock import clock
from django_mq.stores.registry import database_store, shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

#: How long events are kept, in seconds.
KEPT: Final = Option(
    name="DURABLE_EVENT_SECONDS",
    type="float",
    default=7 * 86400.0,
    help="How long an event is kept for handlers that wait for it later, in seconds.",
    least=1,
)


def emit(event: str, key: str, payload: Any, *, ttl_seconds: timedelta | float | None, alias: str) -> bool:
    """Emit an event; return whether it was the first. Raises UnusableEvent. ``django_mq.api`` has the promises."""
    database_store(alias, "events")
    check(event, key)
    text = _encoded(payload)
    try:
        kept = seconds(KEPT.value_in(conf.load()) if ttl_seconds is None else ttl_seconds, "ttl_seconds")
    except InvalidMessage as error:
        raise UnusableEvent(str(error)) from None
    with transaction.atomic(using=alias):
        row = locked(alias, event, key)
        now = clock.now()
        if is_there(row, now):
            return False
        row.payload, row.emitted_at, row.expires_at = text, now, now + timedelta(seconds=kept)
        row.save(using=alias, update_fields=["payload", "emitted_at", "expires_at"])
        waiting = DurableStep.objects.using(alias).filter(event=row, outcome=StepOutcome.OPEN.value)
        # Locked, so that each database shows what has committed by now.
        free(alias, ((name, row.pk) for name in waiting.select_for_update().values_list("queue_name", flat=True)))
    return True


def delete(event: str, key: str, *, alias: str) -> None:
    """Delete an event. Raises UnusableEvent if there is none, or if something waits for it."""
    with transaction.atomic(using=alias):
        row = DurableEvent.objects.using(alias).select_for_update().filter(name=event, key=key).first()
        if row is None:
            raise UnusableEvent(f"There is no event {f'{event} {key}'.strip()!r}.")
        waits = DurableStep.objects.using(alias).filter(event=row, outcome=StepOutcome.OPEN.value)
        if number := waits.count():
            raise UnusableEvent(
                f"The event {str(row)!r} is not deleted: messages wait for it, {PLAIN.number(number)} of them."
                " Emit it, or cancel them."
            )
        row.delete()


def check(event: object, key: object) -> None:
    """Raise UnusableEvent for a name or a key that cannot be stored."""
    if not (isinstance(event, str) and event and _is_exact(event)):
        raise UnusableEvent(
            f"The name of an event is {shown(event)}; give a text of 1 to {NAME_LENGTH} characters that a database"
            " can store, without a space at the end."
        )
    if not (isinstance(key, str) and _is_exact(key)):
        raise UnusableEvent(
            f"The key of the event {event!r} is {shown(key)}; give a text of at most {NAME_LENGTH} characters that"
            " a database can store, without a space at the end, such as str(order.pk)."
        )


def _is_exact(text: str) -> bool:
    """Whether each database can store the text, and tells it from all others."""
    # MariaDB compares as if spaces at the ends were not there.
    return is_storable(text, NAME_LENGTH) and not text.endswith(" ")


def _encoded(payload: Any) -> str:
    try:
        text = encode_json(payload, "payload")
    except BodyNotSerialisable as error:
        raise UnusableEvent(str(error)) from None
    if problem := oversize(text, "The payload of an event", setting="MAX_BODY_BYTES"):
        raise UnusableEvent(f"{problem} Emit the key of a row.")
    return text


def locked(alias: str, event: str, key: str, *, waited_at: datetime | None = None) -> DurableEvent:
    """Return the row of an event, which is made if it is missing, locked until the transaction ends."""
    rows = DurableEvent.objects.using(alias)
    targeted = connections[alias].features.supports_update_conflicts_with_target
    rows.bulk_create(
        [DurableEvent(name=event, key=key, waited_at=waited_at)],
        update_conflicts=True,
        update_fields=["name"] if waited_at is None else ["waited_at"],
        unique_fields=["name", "key"] if targeted else None,
    )
    return rows.select_for_update().get(name=event, key=key)


def is_there(row: DurableEvent, now: datetime) -> bool:
    """Whether the event was emitted, and is kept."""
    return row.emitted_at is not None and (row.expires_at is None or row.expires_at > now)


def park_key(event: int | str) -> str:
    """Return the key with which messages are parked that wait for the event."""
    return f"durable event {event}"


def free(alias: str, waiting: Iterable[tuple[str, int]]) -> int:
    """Bring back the messages of these queues that wait for these events; return how many."""
    freed = 0
    for (queue, event), count in Counter(waiting).items():
        if found := shared_store(alias).parking.free(queue, park_key(event), count):
            hints.announce_count(queue, found, using=alias)
        freed += found
    return freed
