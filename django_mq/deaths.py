"""Calls of ``on_dead``: what dies leaves a notice for the function, in the transaction in which it dies.

The notice is a message in the queue that ``handlers.notices_of`` names. The function is the handler of that queue:
a worker calls it at least once, with the retries and dead letters of that queue.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django_mq.delivery import hints
from django_mq.delivery.codecs import new_message_id
from django_mq.delivery.consumer.handlers import notices_of
from django_mq.delivery.publisher import declaring
from django_mq.engine.decisions.ends import ON_DEAD, End
from django_mq.seams.extension import Extension, Listening
from django_mq.stores.records import NewMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.engine.decisions.ends import Ended
    from django_mq.stores.base import Store


def leave_notices(store: Store, ended: Sequence[Ended]) -> None:
    """Write a notice for each message that has died. Raises StoreError."""
    notices = [
        NewMessage(
            queue_name=notices_of(each.queue),
            message_id=new_message_id(),
            correlation_id=str(each.message_id),
            type=each.type,
            headers=each.headers,
            properties=each.properties,
            content_type=each.content_type,
            content_encoding=each.content_encoding,
            body=each.body,
        )
        for each in ended
    ]
    for notice in notices:
        # The queue is missing until a worker has begun with the function.
        declaring(store, [notice.queue_name], partial(store.publications.append, notice))
    hints.announce(notices, store)


EXTENSION = Extension(
    name="on_dead", ends=(Listening(name=ON_DEAD, ends=frozenset({End.DEAD}), wants=None, tell=leave_notices),)
)
