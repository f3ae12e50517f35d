"""The records of one message, each written under the fence of its claim."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from django.db import transaction

from django_mq.delivery.codecs import encode_json
from django_mq.delivery.validation import oversize
from django_mq.durable.models import DurableStep
from django_mq.engine.decisions.verdict import ACCEPT, PARK
from django_mq.errors import BodyNotSerialisable, LeaseLost, UnusableResult
from django_mq.seams.ends import with_mark
from django_mq.stores.clock import clock
from django_mq.stores.records import Settlement
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.engine.decisions.durable import Record, StepOutcome
    from django_mq.stores.records import Claimed, Lease

#: The listening that is told when a message with records is gone.
LISTENING: Final = "durable"


class Recorder:
    """Reads and writes the records of a message that this session holds."""

    def __init__(self, claimed: Claimed, lease: Lease) -> None:
        self._claimed = claimed
        self._lease = lease
        self.alias = lease.alias

    @property
    def _rows(self) -> Any:
        return DurableStep.objects.using(self.alias).filter(
            message_id=self._claimed.message_id, queue_name=self._claimed.queue_name
        )

    def read(self) -> list[Record]:
        """Return all records, in their order."""
        return [row.as_record() for row in self._rows.order_by("place")]

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Commit what the block writes, unless another worker has the message. Raises LeaseLost.

        The message is locked last, so that it is free while the block works.
        """
        with transaction.atomic(using=self.alias):
            yield
            self.hold()

    def hold(self) -> None:
        """Lock the message until the transaction ends, and have its end told. Raises LeaseLost."""
        settlements, claimed = shared_store(self.alias).settlements, self._claimed
        if not settlements.hold(self._lease.session_id, claimed.receipt):
            raise LeaseLost(frozenset({claimed.id}))
        told_to = with_mark(claimed.told_to, LISTENING)
        if told_to != claimed.told_to:
            settlements.mark(self._lease.session_id, claimed.receipt, told_to)
            claimed.told_to = told_to

    # What a transaction writes that holds the message.

    def write(self, place: int, record: Record, *, event: int | None = None, seconds: float | None = None) -> None:
        """Insert a record."""
        DurableStep.objects.using(self.alias).create(
            message_id=self._claimed.message_id,
            queue_name=self._claimed.queue_name,
            place=place,
            kind=record.kind.value,
            name=record.name,
            key=record.key,
            number=record.number,
            outcome=record.outcome.value,
            result=record.result,
            until=None if record.until is None else datetime.fromtimestamp(record.until, UTC),
            event_id=event,
            recorded_at=clock.now(),
            seconds=seconds,
            attempt=self._claimed.attempts + 1,
        )

    def close(self, place: int, outcome: StepOutcome, result: str) -> None:
        """Write how a wait has ended."""
        self._rows.filter(place=place).update(outcome=outcome.value, result=result, event=None)

    def park(self, key: str, seconds: float | None) -> None:
        """Give the message back, uncounted, until its key is freed or so long. Raises LeaseLost."""
        delay_seconds = 0.0 if seconds is None else max(seconds, 0.001)  # 0 is without end
        self._settle(Settlement(*self._claimed.receipt, PARK, delay_seconds=delay_seconds, park_key=key))

    def accept(self, returned: str | None) -> None:
        """Accept the message, and forget its records, in a transaction. Raises LeaseLost."""
        claimed = self._claimed
        with transaction.atomic(using=self.alias):
            self._settle(Settlement(*claimed.receipt, ACCEPT, told_to=claimed.told_to, returned=returned))
            if claimed.told_to is not None:  # else nothing is recorded
                self._rows.delete()

    def _settle(self, settlement: Settlement) -> None:
        if lost := shared_store(self.alias).settlements.settle(self._lease.session_id, [settlement]):
            raise LeaseLost(lost)


def encoded(result: Any, name: str) -> str:
    """Return the result of a step as JSON. Raises UnusableResult."""
    try:
        text = encode_json(result, "result")
    except BodyNotSerialisable as error:
        raise UnusableResult(
            f"The step {name!r} has run, but its result cannot be recorded. {error} Return what JSON has, such as"
            " the primary key of a row."
        ) from None
    if problem := oversize(text, f"The step {name!r} has run, but its result"):
        raise UnusableResult(f"{problem} Write it into a row of yours, and return the primary key.")
    return text


def decoded(text: str) -> Any:
    """Return the result that is recorded."""
    return json.loads(text)
