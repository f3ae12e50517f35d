"""Sum up the members of live batches, end batches whose last ends did not see each other, and delete old ones."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django_mq import conf
from django_mq.batches.callbacks import is_signature, publish_signature
from django_mq.batches.ends import settle
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.engine.decisions.batches import LIVE, BatchCallback, BatchState, callbacks_due
from django_mq.engine.options import Option
from django_mq.models.deletion import delete_first
from django_mq.models.times import UTCNow
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger("django_mq.batches")

#: How often the members of live batches are counted.
INTERVAL_SECONDS: Final = 2.0
LIVE_STATES: Final = tuple(state.value for state in LIVE)

KEEP_DAYS: Final = Option(
    name="BATCHES_KEEP_DAYS",
    type="int",
    default=14,
    least=0,
    help="How many days a batch is kept after its end.",
)


def look_again(store: Any, limit: int) -> int:
    """Count members of batches that have changed, and publish what is due; return how many batches have ended.

    One statement finds these batches, without a lock. A batch whose members go on as before costs nothing more.
    """
    if not store.features.durable:
        return 0
    mine: Any = shared_store(store.alias)
    found = mine.database.rows("batches_to_look_at", limit=limit)
    return sum(_looked_at(mine, UUID(str(id_))) for (id_,) in found)


def _looked_at(store: Any, batch: UUID) -> bool:
    """Count the members of a batch; return whether it has ended."""
    with store.database.transaction():
        state = settle(store, batch, count=True)
    for what, text in _signatures(store.alias, batch):
        try:
            with store.database.transaction():
                store.database.rows("lock_batch", batch=batch)
                if what in {each for each, _ in _signatures(store.alias, batch)}:
                    publish_signature(store, batch, what, text)
        except Exception as error:  # one batch must not keep the others from being looked at
            logger.exception("The callback on_%s of the batch %s is not published", what.value, batch)
            problem = f"on_{what.value}: {error}"[:1000]
            MessageBatch.objects.using(store.alias).filter(pk=batch).update(problem=problem)
    return state is not None and state not in LIVE


def _signatures(alias: str, batch: UUID) -> Iterator[tuple[BatchCallback, str]]:
    """Yield the callbacks of a batch that are due, and that Celery publishes."""
    row = MessageBatch.objects.using(alias).filter(pk=batch).first()
    if row is None:
        return
    texts = {each: getattr(row, f"on_{each.value}") for each in BatchCallback}
    published = {each for each in BatchCallback if getattr(row, f"{each.value}_at") is not None}
    for each in callbacks_due(BatchState(row.state), has_failed=row.failed > 0, published=published):
        if texts[each] and is_signature(texts[each]):
            yield each, texts[each]


def prune(store: Any, limit: int) -> int:
    """Delete batches that have ended long ago, with their members; return how many rows."""
    if not store.features.durable:
        return 0
    days = KEEP_DAYS.value_in(conf.load())
    old = MessageBatch.objects.using(store.alias).exclude(state__in=LIVE_STATES)
    old = old.filter(ended_at__lt=UTCNow() - timedelta(days=days)).order_by("created_at")
    deleted = 0
    for batch in old.values_list("pk", flat=True)[:limit]:
        members = BatchMember.objects.using(store.alias).filter(batch_id=batch)
        deleted += delete_first(members, limit - deleted)
        if deleted >= limit:
            break
        deleted += MessageBatch.objects.using(store.alias).filter(pk=batch).delete()[0]
    return deleted
