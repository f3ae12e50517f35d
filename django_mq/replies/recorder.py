"""Write results in the transaction that ends their messages, and delete them when their time is over."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.delivery.codecs import KEEP_RESULT, changed_text
from django_mq.engine.decisions.ends import STATUS_OF_END
from django_mq.models.deletion import delete_first
from django_mq.replies.models import MessageResult
from django_mq.stores.clock import clock
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.decisions.ends import Ended


def keep(store: Any, ended: Sequence[Ended]) -> None:
    """Write the results of messages that have ended. A queue in memory keeps none."""
    if not store.features.durable:
        return
    connection, now = store.database.connection, clock.now()
    fields = MessageResult._meta.local_concrete_fields
    quote = connection.ops.quote_name
    table, columns = quote(MessageResult._meta.db_table), ", ".join(quote(each.column) for each in fields)
    places = ", ".join(["%s"] * len(fields))
    for each in ended:
        seconds = headers_in(each.headers).get(KEEP_RESULT)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
            continue  # another publisher has written it
        value, content_encoding = encoded(each.returned)
        row = MessageResult(
            message_id=each.message_id,
            queue_name=each.queue,
            status=STATUS_OF_END[each.end],
            value=value,
            content_encoding=content_encoding,
            finished_at=now,
            expires_at=now + timedelta(seconds=seconds),
        )
        values = [field.get_db_prep_save(getattr(row, field.attname), connection=connection) for field in fields]
        with connection.cursor() as cursor:
            # It has a row already if it was a dead letter, or if it has copies in several queues.
            cursor.execute(f"DELETE FROM {table} WHERE {quote('message_id')} = %s", values[:1])
            cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", values)


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
