"""Writes acts. What is done to messages, and which messages, commits with their change."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.db.models import F

from django_mq.acts.models import Act, ActedMessage
from django_mq.delivery.operator import begun_runs, redrives
from django_mq.delivery.operator.actions import rows_of
from django_mq.engine.decisions.acts import MOST_CHARACTERS, MOST_REMEMBERED
from django_mq.engine.states import DEAD
from django_mq.errors import MQError, StoreUnavailable
from django_mq.models import Message
from django_mq.models.times import UTCNow
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from uuid import UUID

    from django_mq.acts.operators import Operator
    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.delivery.operator.redrives import Redriven
    from django_mq.stores.records import Moved

#: What an action has changed: row ids, or what has become of the rows.
T = TypeVar("T", bound="Sequence[Moved | int]")
#: The most seconds before each further try of what the database has rolled back.
PAUSES: Final = (0.1, 0.5)
#: Characters of names that are stored.
MOST_OF_NAMES: Final = 255


def new_act(operator: Operator, model: str, name: str, **values: Any) -> Act:
    """Return an act that is not written yet. Long texts are cut, and what no database stores is left out."""
    values = storable(values)
    values["reason"] = " ".join(str(values.get("reason") or "").split())[:MOST_CHARACTERS]
    values["about"] = str(values.get("about") or "")[:MOST_OF_NAMES]
    values["answers"] = plain(values.get("answers") or {})
    user = {"user_name": operator.name[:MOST_OF_NAMES], "interface": operator.interface}
    return Act(**user, model=model, name=name, **values)


def storable(value: Any) -> Any:
    """Return a value without the characters that a database refuses, at any depth."""
    match value:
        case str():
            return value.encode(errors="replace").decode().replace("\x00", "")
        case dict():
            return {storable(key): storable(each) for key, each in value.items()}
        case list() | tuple():
            return [storable(each) for each in value]
    return value


def plain(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return answers of a form as JSON has them; the reason has a column."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in answers.items()
        if name not in {"reason", "typed"}
    }


def write(act: Act, *, using: str) -> Act:
    """Write an act that is done."""
    act.began_at = UTCNow()
    act.save(using=using)
    return act


@contextmanager
def recorded(act: Act, *, using: str) -> Iterator[Act]:
    """Write an act before it is done, so that it is known if the process ends; what is refused is no act."""
    write(act, using=using)
    try:
        yield act
    except MQError:
        Act.objects.using(using).filter(pk=act.pk, count=0).delete()
        raise
    # An operation in the background may have counted meanwhile.
    counted = {"count": act.count} if act.count else {}
    Act.objects.using(using).filter(pk=act.pk).update(undoes=act.undoes, **counted)
    told(act, act.sentence, using=using)


def perform(act: Act, rows: Sequence[ActionTarget], change: Callable[[], T], *, using: str) -> T:
    """Change messages, and write which were changed, in one transaction; return these. Raises MQError.

    The act is written with the first messages that it changes. After a deadlock or a timeout, all is tried again.
    """
    for pause in PAUSES:
        with suppress(StoreUnavailable):
            return _perform(act, rows, change, using)
        if shared_store(using).database.in_transaction:
            break
        # At random, so that two acts do not meet again.
        time.sleep(pause * random.random())  # noqa: S311 - no secret
    return _perform(act, rows, change, using)


def _perform(act: Act, rows: Sequence[ActionTarget], change: Callable[[], T], using: str) -> T:
    known = act.pk, act.count
    try:
        with shared_store(using).database.transaction():
            reasons = dead_reasons([row.id for row in rows], using)
            changed = change()
            if changed:
                remember(act, rows, changed, reasons, using=using)
    except BaseException:
        act.pk, act.count = known
        raise
    return changed


def perform_on(act: Act, ids: Sequence[int], change: Callable[[], T], *, using: str) -> T:
    """Do the same to the messages in these rows."""
    return perform(act, rows_of(Message.objects.using(using).filter(pk__in=ids)), change, using=using)


def redrive(act: Act, queue: str, *, limit: int | None = None, using: str) -> Redriven:
    """Return the dead letters of a queue to the queues that they came from, in batches. Raises MQError."""

    def each(ids: Sequence[int], send: Callable[[], Redriven]) -> Redriven:
        parts: list[Redriven] = []

        def change() -> list[Moved]:
            parts.append(send())
            return parts[-1].moved

        perform_on(act, ids, change, using=using)
        return parts[-1]

    return redrives.redrive(queue, limit=limit, using=using, each=each)


def stop_begun(act: Act, message_ids: Sequence[UUID], *, using: str) -> dict[UUID, str]:
    """Have workers end runs whose messages are gone, and write which; return the queue of each."""
    with shared_store(using).database.transaction():
        asked = begun_runs.stop(message_ids, using=using)
        if asked:
            if not act.pk:
                write(act, using=using)
            ActedMessage.objects.using(using).bulk_create(
                ActedMessage(act=act, message_id=id_, came_from=queue, went_to=queue)
                for id_, queue in asked.items()
            )
            act.count += len(asked)
            Act.objects.using(using).filter(pk=act.pk).update(count=F("count") + len(asked))
    return asked


def dead_reasons(ids: Sequence[int], using: str) -> dict[int, str]:
    """Return, by row id, why messages are dead letters."""
    found = Message.objects.using(using).filter(pk__in=ids).exclude(dead_reason="")
    return dict(found.order_by().values_list("pk", "dead_reason"))


def remember(
    act: Act,
    rows: Sequence[ActionTarget],
    changed: Sequence[Moved | int],
    reasons: Mapping[int, str],
    *,
    using: str,
) -> None:
    """Write which of these rows were changed, as far as an act remembers messages."""
    if not act.pk:
        write(act, using=using)
    before = {row.id: row for row in rows}
    kept = [_acted(act, before, each, reasons) for each in changed[: max(MOST_REMEMBERED - act.count, 0)]]
    ActedMessage.objects.using(using).bulk_create(kept, batch_size=500)
    act.count += len(changed)
    Act.objects.using(using).filter(pk=act.pk).update(count=F("count") + len(changed))


def _acted(
    act: Act, before: Mapping[int, ActionTarget], each: Moved | int, reasons: Mapping[int, str]
) -> ActedMessage:
    id_, row_id, queue = (each, each, "") if isinstance(each, int) else each
    row = before[id_]
    return ActedMessage(
        act=act,
        message_id=row.message_id,
        row_id=row_id,
        came_from=row.queue,
        went_to=queue or row.queue,
        was_dead=row.state == DEAD.value,
        dead_reason=reasons.get(id_, ""),
    )


def told(act: Act, sentence: str, *, using: str) -> None:
    """Write the sentence of an act that has changed something, unless an operation has written the last one."""
    if act.pk:
        Act.objects.using(using).filter(pk=act.pk, sentence="").update(sentence=storable(sentence))
