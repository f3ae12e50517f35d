"""Messages that differ in nothing but their bodies, checked once and written together.

Most messages of a load of millions are alike. What is true of all of them is said, checked
and encoded once, and not once for each message.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.delivery import hinting, validation
from django_mq.delivery.declaring import declaring
from django_mq.delivery.limits import rules_of
from django_mq.delivery.message_ids import new_message_ids
from django_mq.delivery.publishing import check, is_watched, publish_many
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.publishing import Letter
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage


def publish_alike(letter: Letter, bodies: Sequence[bytes], *, using: str | None = None) -> None:
    """Publish a message like the letter for each body; all or, raising as ``publish`` does, none.

    The bodies are what the letter's content type says, and are not looked at. In a queue whose rules
    look at each message, and where signals are listened to, this is ``publish_many``.
    """
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    if not bodies:
        return
    if _is_looked_at(letter, store):
        publish_many([replace(letter, body=body) for body in bodies], using=alias)
        return
    _, like = check(replace(letter, body=bodies[0]))
    validation.check_size(max(bodies, key=len))
    _append(store, like, bodies)
    hinting.announce_alike(like, len(bodies), store)


def _is_looked_at(letter: Letter, store: Store) -> bool:
    """Whether somebody wants to see, or decide about, each message by itself."""
    own = letter.exchange is not None or letter.message_id is not None or letter.dedup_id is not None
    return own or is_watched() or rules_of(store, letter.queue) is not None


def _append(store: Store, like: NewMessage, bodies: Sequence[bytes]) -> None:
    ids = new_message_ids(len(bodies))
    declaring(store, [like.queue_name], partial(store.append_alike, like, ids, bodies))
