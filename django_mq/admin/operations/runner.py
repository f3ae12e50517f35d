"""Runs an action on more messages than a request can wait for, batch by batch.

    begin ──> RUNNING ── no more rows ──> DONE
                 │ └── stop ──> STOPPED ── go on ──> RUNNING
                 └── refused, or an error ──> FAILED ── go on ──> RUNNING

A thread of the web process begins it. The row of the operation has its progress. If it makes none, its process has
ended, and the maintenance leader starts another process that continues. A batch and its count commit together, so
that no batch is done twice or left uncounted, whichever process is killed. The process that runs the operation
writes a token. A process that takes over writes another one, and the former process does no further batch. Before
each batch the permission of the user is checked.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.db import connections, transaction
from django.db.models import F, Q

from django_mq.acts import recorder
from django_mq.acts.models import Act
from django_mq.admin import report
from django_mq.admin.messages.actions import BY_NAME
from django_mq.admin.table import alias
from django_mq.delivery.operator import actions
from django_mq.delivery.operator.queue_editor import stop_operation
from django_mq.delivery.operator.recalls import recalled
from django_mq.delivery.operator.users import check_user, user_named
from django_mq.diagnosis.messages import criteria
from django_mq.errors import MQError, StoreUnavailable
from django_mq.models import Message, Operation
from django_mq.models.operation import stalled
from django_mq.models.times import UTCNow
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django.db.models import QuerySet

    from django_mq.admin.messages.actions import MessageAction
    from django_mq.delivery.operator.actions import ActionTarget

logger = logging.getLogger("django_mq.admin")

#: Messages in a transaction.
BATCH = 500
#: The most messages that the thread counts beforehand.
COUNT_LIMIT = 1_000_000
#: The most messages that one statement reads.
SLICE = 100_000
#: The most seconds before each further try of a batch that the database has rolled back.
PAUSES = (0.1, 0.5, 2.0)

RUNNING, DONE, FAILED = (Operation.Status.RUNNING, Operation.Status.DONE, Operation.Status.FAILED)


def begin(
    action: MessageAction,
    filters: Mapping[str, str],
    answers: Mapping[str, Any],
    *,
    act: Act,
    expected: int = 0,
) -> Operation:
    """Create the operation that does an act, and start it when the transaction commits."""
    now = datetime.now(UTC)
    newest = Message.objects.using(alias()).order_by("-id").values_list("id", flat=True).first() or 0
    operation = Operation(
        act=action.name,
        filters=dict(filters),
        answers={
            name: value.isoformat() if isinstance(value, datetime) else value for name, value in answers.items()
        },
        user_name=act.user_name,
        newest=newest,
        created_at=now,
        beat_at=now,
        expected=expected,
    )
    with transaction.atomic(using=alias()):
        operation.save(using=alias())
        act.operation = operation
        recorder.write(act, using=alias())
        start(operation)
    return operation


def start(operation: Operation) -> None:
    name = f"django_mq-operation-{operation.pk}"
    thread = threading.Thread(target=_run_apart, args=(operation.pk, alias()), name=name, daemon=True)
    transaction.on_commit(thread.start, using=alias())


def _run_apart(pk: int, using: str) -> None:
    try:
        run(pk, using=using)
    except Exception:
        logger.exception("Operation %s has stopped", pk)
    finally:
        connections.close_all()  # of this thread


def take_over(*, using: str, halted: Callable[[], bool] = bool) -> tuple[int, list[int]]:
    """Continue the stalled operations, the oldest first; return how many, and the ids of those left.

    Operations with actions or filters of another version of django_mq are left to that version.
    """
    found = list(Operation.objects.using(using).filter(stalled()).order_by("pk"))
    left = [one.pk for one in found if not _is_known(one)]
    taken = 0
    for operation in found:
        try:
            taken += operation.pk not in left and not halted() and run(operation.pk, using=using, halted=halted)
        except Exception:
            logger.exception("Operation %s has stopped", operation.pk)
    return taken, left


def _is_known(operation: Operation) -> bool:
    filters = operation.filters
    return operation.act in BY_NAME and isinstance(filters, dict) and filters.keys() <= criteria.NAMES


def rows_of(operation: Operation, using: str) -> QuerySet[Any]:
    """Return the messages that are left, the oldest first."""
    rows = Message.objects.using(using).filter(pk__gt=operation.cursor, pk__lte=operation.newest)
    among = BY_NAME[operation.act].among
    return criteria.narrowed(rows, operation.filters, operation.created_at).filter(among).order_by("pk")


def run(pk: int, *, using: str, halted: Callable[[], bool] = bool) -> bool:
    """Do batch after batch, until none is left, the operation is stopped or forbidden, or another process runs it.

    Return whether it could be run: no process had begun it, or it was stalled. End after a batch if ``halted``.
    """
    token = uuid4()
    waiting = Operation.objects.using(using).filter(pk=pk, status=RUNNING)
    taken = {"runner": token, "beat_at": UTCNow()}
    is_new = waiting.filter(runner=None).update(**taken)
    if not is_new and not waiting.filter(stalled()).update(**taken):
        return False
    mine = waiting.filter(runner=token)
    try:
        if is_new:
            _expect(mine, using)
        _go_through(mine, using, halted)
    except MQError as error:
        _end(mine, FAILED, str(error))
    except Exception as error:
        _end(mine, FAILED, f"{type(error).__name__}: {error}")
        raise
    return True


def _go_through(mine: QuerySet[Operation], using: str, halted: Callable[[], bool]) -> None:
    end = 0
    while not halted() and (operation := mine.first()) is not None:
        if operation.cursor >= operation.newest:
            _end(mine, DONE)
            return
        end = end if operation.cursor < end else _end_of_slice(operation, using)
        action = BY_NAME[operation.act]
        batch = actions.rows_of(rows_of(operation, using).filter(pk__lte=end)[:BATCH])
        check_user(operation.user_name, action.permission)
        reached = batch[-1].id if len(batch) == BATCH else end
        held_in = action.held_in(batch)
        with recalled(held_in, using=using):
            if held_in:
                batch = actions.rows_of(Message.objects.using(using).filter(pk__in=[row.id for row in batch]))
            _try(operation, batch, reached, mine, using)


def _end_of_slice(operation: Operation, using: str) -> int:
    """Return the last key that the next statements read: a slice without matches is progress, too."""
    keys = Message.objects.using(using).filter(pk__gt=operation.cursor, pk__lte=operation.newest).order_by("pk")
    return next(iter(keys.values_list("pk", flat=True)[SLICE : SLICE + 1]), operation.newest)


def _expect(mine: QuerySet[Operation], using: str) -> None:
    """Count the messages; the page could not wait for all of them."""
    if (operation := mine.filter(tried=0).first()) is not None:
        number = rows_of(operation, using).order_by()[:COUNT_LIMIT].count()
        mine.update(expected=number, beat_at=UTCNow())


def _try(
    operation: Operation, batch: Sequence[ActionTarget], reached: int, mine: QuerySet[Operation], using: str
) -> None:
    """Do a batch and write the progress, in one transaction. Try again after a deadlock or a timeout.

    The progress is written first: a process that stops the operation or takes it over waits for this batch.
    """
    for pause in PAUSES:
        with suppress(StoreUnavailable):
            _try_once(operation, batch, reached, mine, using)
            return
        # At random, so that two operations do not meet again.
        time.sleep(pause * random.random())  # noqa: S311 - no secret
    _try_once(operation, batch, reached, mine, using)


def _try_once(
    operation: Operation, batch: Sequence[ActionTarget], reached: int, mine: QuerySet[Operation], using: str
) -> None:
    here, action = mine.filter(cursor=operation.cursor), BY_NAME[operation.act]
    progress = {"cursor": reached, "tried": F("tried") + len(batch), "beat_at": UTCNow()}
    fit = [row for row in batch if row.state in action.states]
    with shared_store(using).database.transaction():
        if here.update(**progress) and fit:
            mine.update(changed=F("changed") + _change(operation, action, fit, using))


def _change(operation: Operation, action: MessageAction, rows: Sequence[ActionTarget], using: str) -> int:
    """Change messages for the act of an operation; return how many were changed. Raises MQError."""
    act = Act.objects.using(using).filter(operation=operation.pk).first()
    run = partial(action.run, rows, _read(operation.answers), using)
    # An operation that outlives its act is older than acts are kept.
    return len(run() if act is None else recorder.perform(act, rows, run, using=using))


def _end(mine: QuerySet[Operation], status: Operation.Status, error: str = "") -> None:
    operation = mine.first()
    if operation is not None and mine.update(status=status, error=error, runner=None, beat_at=UTCNow()):
        operation.status = status
        words = f"{operation.get_status_display()}: {report.progress(operation)}. {error}".rstrip()
        Act.objects.using(mine.db).filter(operation=operation.pk).update(sentence=words)
        report.log_end(operation, user_named(operation.user_name), error)


def stop(operation: Operation) -> bool:
    """Stop after the current batch; return whether it was running."""
    return stop_operation(operation.pk, using=alias())


def go_on(operation: Operation, user_name: str) -> bool:
    """Continue as this user; return whether the operation was stopped, failed or stalled."""
    waiting = Operation.objects.using(alias()).filter(pk=operation.pk)
    given = {"status": RUNNING, "runner": None, "error": "", "user_name": user_name, "beat_at": UTCNow()}
    if not waiting.filter(Q(status__in=(Operation.Status.STOPPED, FAILED)) | stalled()).update(**given):
        return False
    start(operation)
    return True


def _read(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers as the forms returned them; the row has them as JSON."""
    times = {name: datetime.fromisoformat(answers[name]) for name in ("deliver_at",) if name in answers}
    return {**answers, **times}
