"""An act on more messages than a page can wait for, done batch by batch in a thread of the web process.

    begin ──> RUNNING ── no more rows ──> DONE
                 │ └── stop ──> STOPPED ── go on ──> RUNNING
                 └── refused, or an error ──> FAILED ── go on ──> RUNNING

The row knows how far it is, so a process that dies leaves an operation that anybody may go on with. A batch and
its count commit together: none is done twice, or done and not counted, whoever is killed. Who runs it writes a
token: somebody who takes over writes another, and the former runner stops before its next batch. Before each
batch it is asked whether the user may still do this: a permission that is taken away ends it.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from django.db import connections, transaction
from django.db.models import F

from django_mq.admin import behalf, report
from django_mq.admin.message_acts import BY_NAME
from django_mq.admin.selection import Batch, chosen_of
from django_mq.admin.table import alias
from django_mq.delivery import operations
from django_mq.diagnosis.narrowing import narrowed
from django_mq.errors import MQError, StoreUnavailable
from django_mq.models import Message, Operation, Queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django.db.models import QuerySet

    from django_mq.admin.message_acts import Act
    from django_mq.admin.selection import Chosen

logger = logging.getLogger("django_mq.admin")

#: Messages tried by one transaction.
BATCH = 500
#: Where counting what to expect stops in the thread; the page that begins it counts no further than it looks.
COUNT_LIMIT = 1_000_000
#: A running operation without progress for so long has lost its process.
STALLED_SECONDS = 60.0
#: Seconds, at most, before each further try of a batch that the database has undone.
PAUSES = (0.1, 0.5, 2.0)

RUNNING, DONE, FAILED = (
    Operation.Status.RUNNING,
    Operation.Status.DONE,
    Operation.Status.FAILED,
)


def begin(
    act: Act, filters: Mapping[str, str], answers: Mapping[str, Any], *, user_name: str, expected: int = 0
) -> Operation:
    """Write the operation down, with how many the page has counted; start it when the transaction commits."""
    now = datetime.now(UTC)
    newest = Message.objects.using(alias()).order_by("-id").values_list("id", flat=True).first() or 0
    operation = Operation(
        act=act.name,
        filters=dict(filters),
        answers=_written(answers),
        user_name=user_name,
        newest=newest,
        created_at=now,
        beat_at=now,
        expected=expected,
    )
    operation.save(using=alias())
    start(operation)
    return operation


def start(operation: Operation) -> None:
    """Run it in a thread of its own as soon as the row is committed."""
    arguments = operation.pk, alias()
    thread = threading.Thread(
        target=_run_apart, args=arguments, name=f"django_mq-operation-{operation.pk}", daemon=True
    )
    transaction.on_commit(thread.start, using=alias())


def _run_apart(pk: int, using: str) -> None:
    try:
        run(pk, using=using)
    except Exception:
        logger.exception("Operation %s has stopped", pk)
    finally:
        connections.close_all()  # this thread's own


def rows_of(operation: Operation) -> QuerySet[Any]:
    """Return the messages that it still has to try, oldest first."""
    rows = Message.objects.using(alias()).filter(pk__gt=operation.cursor, pk__lte=operation.newest)
    among = BY_NAME[operation.act].among
    return narrowed(rows, operation.filters, operation.created_at).filter(among).order_by("pk")


def run(pk: int, *, using: str) -> None:
    """Try batch after batch until nothing is left, it is stopped or not allowed, or somebody else runs it."""
    token = uuid4()
    mine = Operation.objects.using(using).filter(pk=pk, status=RUNNING)
    if not mine.update(runner=token, beat_at=datetime.now(UTC)):
        return
    mine = mine.filter(runner=token)
    try:
        _expect(pk, token, using)
        while (operation := mine.first()) is not None:
            batch = chosen_of(rows_of(operation)[:BATCH])
            if not batch:
                _end(mine, DONE)
                return
            behalf.check(operation.user_name, BY_NAME[operation.act].permission)
            _try(operation, batch, mine, using)
    except MQError as error:
        _end(mine, FAILED, str(error))
    except Exception as error:
        _end(mine, FAILED, f"{type(error).__name__}: {error}")
        raise


def _expect(pk: int, token: UUID, using: str) -> None:
    """Count all that is to be tried: the page that began it could not wait for more than the first of them."""
    mine = Operation.objects.using(using).filter(pk=pk, runner=token, tried=0)
    if (operation := mine.first()) is not None:
        number = rows_of(operation).order_by()[:COUNT_LIMIT].count()
        mine.update(expected=number, beat_at=datetime.now(UTC))


def _try(operation: Operation, batch: Sequence[Chosen], mine: QuerySet[Operation], using: str) -> None:
    """Do it to one batch and write down that it is done, both or neither.

    The row is written first: who stops it or takes over waits for this batch, and is told of it. A batch that a
    dead-lock, or a statement's time, has undone is tried again.
    """
    for pause in PAUSES:
        with suppress(StoreUnavailable):
            _try_once(operation, batch, mine, using)
            return
        # Whoever was in the way goes first, and two of us do not meet again at once.
        time.sleep(pause * random.random())  # noqa: S311 - no secret
    _try_once(operation, batch, mine, using)


def _try_once(operation: Operation, batch: Sequence[Chosen], mine: QuerySet[Operation], using: str) -> None:
    here = mine.filter(cursor=operation.cursor)
    reached = {"cursor": batch[-1].id, "tried": F("tried") + len(batch), "beat_at": datetime.now(UTC)}
    with shared_store(using).transaction():
        if here.update(**reached):
            mine.update(changed=F("changed") + _do(operation, batch))


def _do(operation: Operation, batch: Sequence[Chosen]) -> int:
    act = BY_NAME[operation.act]
    fit = Batch([message for message in batch if message.state in act.states])
    return act.run(fit, _read(operation.answers)) if fit.messages else 0


def _end(mine: QuerySet[Operation], status: Operation.Status, error: str = "") -> None:
    operation = mine.first()
    if operation is not None and mine.update(status=status, error=error, runner=None, beat_at=datetime.now(UTC)):
        operation.status = status
        report.log_end(operation, behalf.user(operation.user_name), error)


def stop(operation: Operation) -> bool:
    """Stop after the batch that runs; return whether it was running."""
    return operations.stop(operation.pk, using=alias())


def go_on(operation: Operation, user_name: str) -> bool:
    """Continue for this user where it stopped, failed or lost its process; return whether it was any of these."""
    waiting = Operation.objects.using(alias()).filter(pk=operation.pk).exclude(status=DONE)
    if not is_stalled(operation) and operation.status == RUNNING:
        return False
    given = {"runner": None, "error": "", "user_name": user_name, "beat_at": datetime.now(UTC)}
    if not waiting.update(status=RUNNING, **given):
        return False
    start(operation)
    return True


def is_stalled(operation: Operation) -> bool:
    """Return whether it should be running and nobody is at it."""
    silence = (datetime.now(UTC) - operation.beat_at).total_seconds()
    return operation.status == RUNNING and silence > STALLED_SECONDS


def _written(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers as JSON values: a queue is its name, a time its text."""
    return {name: _plain(value) for name, value in answers.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.name if isinstance(value, Queue) else value


def _read(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return them as the acts take them."""
    return {name: READERS[name](value) if name in READERS else value for name, value in answers.items()}


#: How answers that are no JSON values are read back.
READERS: dict[str, Callable[[str], Any]] = {
    "target": lambda name: Queue(name=name),
    "deliver_at": datetime.fromisoformat,
}
