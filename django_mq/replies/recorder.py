"""Write results in the transaction that ends their messages, and delete them when their time is over."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Exists, OuterRef

from django_mq import conf
from django_mq.delivery.codecs import KEEP_RESULT, changed_text
from django_mq.engine.decisions.ends import STATUS_OF_END
from django_mq.models import Message
from django_mq.models.deletion import delete_first
from django_mq.notifications.registry import notifier
from django_mq.notifications.waiters import topic_of
from django_mq.replies.models import MessageProgress, MessageResult
from django_mq.stores.clock import clock
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.decisions.ends import Ended

#: For how long the progress of a message is kept that is gone.
PROGRESS_SECONDS: Final = 86400.0


def keep(store: Any, ended: Sequence[Ended]) -> None:
    """Write the results of messages that have ended. A queue in memory keeps none."""
    if not store.features.durable:
        return
    now, topics = clock.now(), set()
    for each in ended:
        seconds = headers_in(each.headers).get(KEEP_RESULT)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
            continue  # another publisher has written it
        value, content_encoding = encoded(each.returned)
        store.database.rows(
            "keep_result",
            message_id=each.message_id,
            queue=each.queue,
            status=STATUS_OF_END[each.end],
            value=value,
            content_encoding=content_encoding,
            finished_at=now,
            expires_at=now + timedelta(seconds=seconds),
        )
        topics.add(topic_of(str(each.message_id)))
    if topics:
        store.database.after_commit(lambda: notifier().send(topics, over=store))


def encoded(value: str | None) -> tuple[str | None, str]:
    """Return a result as it is stored, with its content encoding: as middleware changes the bodies of messages."""
    if value is None or not conf.middleware().encoders:
        return value, ""
    return changed_text(value)


def prune(store: Any, limit: int) -> int:
    """Delete results whose time is over; return how many."""
    if not store.features.durable:
        return 0
    return delete_first(MessageResult.objects.using(store.alias).filter(expires_at__lte=clock.now()), limit)


def prune_progress(store: Any, limit: int) -> int:
    """Delete what was last reported a day ago, of messages that are gone; return how many."""
    if not store.features.durable:
        return 0
    rows = MessageProgress.objects.using(store.alias)
    old = rows.filter(reported_at__lte=clock.now() - timedelta(seconds=PROGRESS_SECONDS))
    return delete_first(old.filter(~Exists(Message.objects.filter(message_id=OuterRef("message_id")))), limit)
