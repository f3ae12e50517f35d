"""Redrive the dead letters of a failure group in stages, step by step.

    begin ──> RUNNING ── all have succeeded, or were removed ──> DONE
                 │ └── a message fails, or an operator stops it ──> STOPPED ── go on ──> RUNNING

A duty of the maintenance takes the steps, so that a redrive survives the web process and any worker. A step is one
transaction, which begins with the row of the redrive: of two processes, the second one waits, and then finds that
the step is done.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Exists, F, OuterRef, Subquery
from django.utils.translation import gettext as _

from django_mq.delivery.operator import redrives
from django_mq.delivery.operator.users import check_user
from django_mq.diagnosis.messages import criteria
from django_mq.diagnosis.messages.indexes import DEAD_LETTERS
from django_mq.engine.decisions.staged_redrive import (
    RedriveEvidence,
    RedriveOutcome,
    Stages,
    StageStep,
    next_step,
    outcome_of,
    used_seconds,
)
from django_mq.errors import MQError
from django_mq.models import Attempt, FailureGroup, History, Message, StagedMessage, StagedRedrive
from django_mq.models.deletion import delete_first
from django_mq.models.message import dead_letters
from django_mq.models.times import UTCNow
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet

    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.failures")

RUNNING, DONE, STOPPED = StagedRedrive.Status
#: Messages sent, and outcomes looked for, by one step.
BATCH: Final = 500
#: The most messages that go first.
MOST_FIRST: Final = BATCH
#: How long after a failure its attempt may be committed.
LATE: Final = timedelta(minutes=5)
#: How long a redrive is kept after its end.
KEPT: Final = timedelta(days=30)
#: The permission that the user of a redrive needs at each step.
PERMISSION: Final = "redrive_message"


class StopReason:
    """Why a redrive has stopped, as its row has it."""

    FAILED: Final = "failed"
    OPERATOR: Final = "operator"
    REFUSED: Final = "refused"


def filters_of(group: int) -> dict[str, str]:
    """Return the filters of the messages that a redrive of a group sends."""
    return {"state": DEAD_LETTERS, "failure": str(group)}


def count_dead_letters(group: int, *, limit: int, using: str) -> int:
    """Count the dead letters that a redrive of a group sends, up to a limit."""
    rows = criteria.narrowed(Message.objects.using(using), filters_of(group), datetime.now(UTC))
    return rows.order_by()[:limit].count()


def begin(
    group: FailureGroup, *, first: int, per_minute: float | None, user_name: str = "", using: str
) -> StagedRedrive:
    """Write a redrive, which the next maintenance begins. Raises MQError if one of this group runs."""
    newest = Message.objects.using(using).order_by("-id").values_list("id", flat=True).first() or 0
    times = dict.fromkeys(("created_at", "paced_at", "beat_at"), _now(using))
    given = {"first": first, "per_minute": per_minute, "user_name": user_name, "newest": newest}
    with _alone(group.pk, using):
        return StagedRedrive.objects.using(using).create(group=group, **given, **times)


def stop(pk: int, *, using: str) -> bool:
    """Stop a redrive after the step that runs; return whether it was running."""
    running = StagedRedrive.objects.using(using).filter(pk=pk, status=RUNNING)
    return bool(running.update(status=STOPPED, reason=StopReason.OPERATOR, about=""))


def go_on(pk: int, *, user_name: str = "", using: str) -> bool:
    """Let a stopped redrive go on in spite of the failures until now; return whether it was stopped.

    Raises MQError if another one of its group runs.
    """
    stopped = StagedRedrive.objects.using(using).filter(pk=pk, status=STOPPED)
    given = {"status": RUNNING, "reason": "", "about": "", "user_name": user_name, "paced_at": _now(using)}
    group = stopped.values_list("group_id", flat=True).first()
    with _alone(group, using):
        return bool(stopped.update(forgiven=F("failed"), **given))


@contextmanager
def _alone(group: int | None, using: str) -> Iterator[None]:
    """Let no other redrive of a group begin: two would send twice as many first. Raises MQError if one runs."""
    with shared_store(using).database.transaction():
        # The first statement locks the row of the group: of two operators, the second one sees the first redrive.
        FailureGroup.objects.using(using).filter(pk=group or 0).update(failures=F("failures"))
        runs = StagedRedrive.objects.using(using).filter(group=group or 0, status=RUNNING).first()
        if runs is not None:
            raise MQError(_("The redrive %(redrive)s of this group runs already.") % {"redrive": runs})
        yield


def steer(store: Store, limit: int) -> int:
    """Take a step of each redrive that runs; return how many messages were sent or settled by the busiest."""
    if not store.features.durable:
        return 0
    running = StagedRedrive.objects.using(store.alias).filter(status=RUNNING).order_by("pk")
    moved = [_step(pk, store.alias) for pk in running.values_list("pk", flat=True)[:limit]]
    return max(moved, default=0)


def _now(using: str) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=shared_store(using).database.now_skew_seconds())


def _step(pk: int, using: str) -> int:
    """Take a step; return how many messages it has sent, or whose outcomes it has found."""
    now = _now(using)
    mine = StagedRedrive.objects.using(using).filter(pk=pk, status=RUNNING)
    last = mine.values_list("beat_at", flat=True).first()
    with shared_store(using).database.transaction():
        # The first statement locks the row: what is read afterwards is what the last step has written.
        if last is None or not mine.update(beat_at=now):
            return 0
        redrive = mine.get()
        settled = _watch(redrive, last - LATE, using)
        return settled + _go_on(redrive, now, using)


def _go_on(redrive: StagedRedrive, now: datetime, using: str) -> int:
    """Send what is due, or end the redrive; return how many messages were sent."""
    seconds = (now - redrive.paced_at).total_seconds()
    rows = _rows(redrive, using)
    stages = Stages(
        first=redrive.first,
        per_minute=redrive.per_minute,
        sent=redrive.sent,
        handled=redrive.succeeded + redrive.failed,
        failed=redrive.failed - redrive.forgiven,
        known=redrive.known,
        has_more=rows.exists(),
    )
    step, number = next_step(stages, seconds, BATCH)
    tried = 0
    if step is StageStep.SEND:
        try:
            tried = _send(redrive, rows[:number], using)
            redrive.paced_at += timedelta(seconds=used_seconds(redrive.per_minute, seconds, tried))
        except MQError as error:
            _end(redrive, STOPPED, StopReason.REFUSED, str(error))
    elif step is StageStep.DONE:
        _end(redrive, DONE)
    elif step is StageStep.STOP:
        _end(redrive, STOPPED, StopReason.FAILED, _failed_one(redrive, using))
    redrive.save(using=using)
    return tried


def _end(redrive: StagedRedrive, status: str, reason: str = "", about: str = "") -> None:
    redrive.status, redrive.reason, redrive.about = status, reason, about[:255]
    logger.info("The redrive in stages %s has ended: %s %s %s", redrive.pk, status, reason, about)


def _rows(redrive: StagedRedrive, using: str) -> QuerySet[Any]:
    """Return the messages that were not tried yet, the oldest first."""
    rows = Message.objects.using(using).filter(pk__gt=redrive.cursor, pk__lte=redrive.newest)
    if redrive.group_id is None:
        return rows.none()
    found = criteria.narrowed(rows, filters_of(redrive.group_id), redrive.created_at)
    return found.filter(dead_letters()).order_by("pk")


def _send(redrive: StagedRedrive, rows: QuerySet[Any], using: str) -> int:
    """Redrive these messages, and note them. Raises MQError if the user may not do so any more."""
    if redrive.user_name:
        check_user(redrive.user_name, PERMISSION)
    found = {pk: ids for pk, *ids in rows.values_list("pk", "message_id", "correlation_id")}
    if not found:  # another operator has just taken them
        return 0
    moved = redrives.redrive_rows([*found], using=using).moved
    StagedMessage.objects.using(using).bulk_create(
        StagedMessage(
            redrive=redrive,
            row_id=each.new_id,
            queue_name=each.queue,
            message_id=found[each.id][0],
            correlation_id=found[each.id][1],
            sent_at=UTCNow(),
        )
        for each in moved
        if each.new_id is not None
    )
    gone = sum(each.new_id is None for each in moved)
    redrive.cursor = max(found)
    redrive.sent += len(moved)
    redrive.removed += gone
    redrive.stayed += len(found) - len(moved)
    return len(found)


def _watch(redrive: StagedRedrive, since: datetime, using: str) -> int:
    """Write the outcomes that are known now, and return how many.

    One step looks at a batch of the messages that wait, in turn, and at those that have just failed, so that a
    failure among very many is seen at once.
    """
    waiting = StagedMessage.objects.using(using).filter(redrive=redrive, outcome=None)
    batch = waiting.filter(pk__gt=redrive.watched).order_by("pk")
    keys = list(batch.values_list("pk", flat=True)[:BATCH])
    redrive.watched = keys[-1] if len(keys) == BATCH else 0
    keys += _just_failed(waiting, since)
    found: dict[RedriveOutcome, list[int]] = {outcome: [] for outcome in RedriveOutcome}
    for pk, *known in _facts(waiting.filter(pk__in=keys)):
        if (outcome := outcome_of(_evidence(*known))) is not None:
            found[outcome].append(pk)
    for outcome, settled in found.items():
        waiting.filter(pk__in=settled).update(outcome=outcome.value)
    redrive.succeeded += len(found[RedriveOutcome.SUCCEEDED])
    redrive.failed += len(found[RedriveOutcome.FAILED])
    redrive.removed += len(found[RedriveOutcome.REMOVED])
    return sum(map(len, found.values()))


def _just_failed(waiting: QuerySet[StagedMessage], since: datetime) -> list[int]:
    """Return the keys of messages of which an attempt has failed since then."""
    failed = Attempt.objects.using(waiting.db).filter(failed_at__gte=since).order_by("-failed_at")
    ids = list(failed.values_list("message_id", "correlation_id")[:BATCH])
    named = {
        "message_id__in": {message_id for message_id, _task_id in ids if message_id},
        "correlation_id__in": {task_id for _message_id, task_id in ids if task_id},
    }
    return [
        pk
        for name, values in named.items()
        for pk in waiting.filter(**{name: values}).values_list("pk", flat=True)
    ]


def _facts(messages: QuerySet[StagedMessage]) -> QuerySet[Any]:
    """Return the key of each message, and the arguments of ``_evidence``."""
    failed = Attempt.objects.filter(failed_at__gt=OuterRef("sent_at")).order_by()
    alike = Message.objects.filter(message_id=OuterRef("message_id")).order_by()
    past = History.objects.filter(message_id=OuterRef("message_id"), queue_name=OuterRef("queue_name"))
    # Where a dead letter has gone to another queue, it has a later row.
    facts = messages.annotate(
        has_failed=Exists(failed.filter(message_id=OuterRef("message_id"))),
        task_has_failed=Exists(failed.filter(correlation_id=OuterRef("correlation_id"))),
        is_dead=Exists(alike.filter(dead_letters(), pk__gte=OuterRef("row_id"))),
        is_there=Exists(alike.filter(pk=OuterRef("row_id"))),
        ended=Subquery(past.filter(finished_at__gte=OuterRef("sent_at")).order_by("-pk").values("outcome")[:1]),
    )
    return facts.values_list("pk", "has_failed", "task_has_failed", "is_dead", "is_there", "ended")


def _evidence(
    has_failed: bool, task_has_failed: bool, is_dead: bool, is_there: bool, ended: int | None
) -> RedriveEvidence:
    is_accepted = None if ended is None else ended == History.Outcome.ACCEPTED
    return RedriveEvidence(has_failed or task_has_failed, is_dead, is_there, is_accepted)


def _failed_one(redrive: StagedRedrive, using: str) -> str:
    """Return the id of the first message of a redrive that has failed."""
    failed = StagedMessage.objects.using(using).filter(redrive=redrive, outcome=RedriveOutcome.FAILED.value)
    return str(failed.order_by("-pk").values_list("message_id", flat=True).first() or "")


def forget_old(store: Store, limit: int) -> int:
    """Delete redrives a month after their end, with the notes of their messages; return how many rows."""
    if not store.features.durable:
        return 0
    old = StagedRedrive.objects.using(store.alias).exclude(status=RUNNING)
    old = old.filter(beat_at__lt=_now(store.alias) - KEPT)
    notes = StagedMessage.objects.using(store.alias).filter(redrive__in=list(old.values_list("pk", flat=True)))
    deleted = delete_first(notes.order_by("pk"), limit)
    return deleted + (0 if notes.exists() else old.delete()[0])
