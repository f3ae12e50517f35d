"""Publish many messages that differ only in body, id and times: options are checked and encoded once for all."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING
from uuid import UUID

from django_mq import conf
from django_mq.delivery import hints, validation
from django_mq.delivery.codecs import new_message_ids
from django_mq.delivery.publisher import check, declaring, is_watched, marked, publish_many, rules_of
from django_mq.seams.middleware import within
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django_mq.delivery.publisher import OutgoingMessage
    from django_mq.stores.records import Times


def publish_batch(
    outgoing: OutgoingMessage,
    bodies: Sequence[bytes],
    *,
    message_ids: Sequence[bytes | None] | None = None,
    times: Times | None = None,
    using: str | None = None,
) -> None:
    """Publish a message like ``outgoing`` for each body, which is not checked. Raises as ``publish`` does.

    An id has 16 bytes; None means a new one. For a queue with rules, and where publishing has middleware or its
    signals have receivers, this calls ``publish_many``.
    """
    alias = using or conf.load().DATABASE
    store = shared_store(alias)
    if not bodies:
        return
    [like] = marked([check(replace(outgoing, body=bodies[0]))], conf.extensions().ends)
    one_by_one = (
        is_watched()
        or conf.middleware().publishing
        or within.get()
        or any((outgoing.exchange, outgoing.message_id, outgoing.dedup_id, outgoing.unique))
        or declaring(store, [outgoing.queue], partial(rules_of, store, outgoing.queue)) is not None
    )
    if one_by_one:
        publish_many(_each(outgoing, bodies, message_ids, times), using=alias)
        return
    validation.check_size(max(bodies, key=len))
    new = new_message_ids(len(bodies))
    ids = new if message_ids is None else [id_ or made for id_, made in zip(message_ids, new, strict=True)]
    declaring(store, [like.queue_name], partial(store.publications.append_alike, like, ids, bodies, times))
    hints.announce_batch(like, len(bodies), store, times)


def _each(
    outgoing: OutgoingMessage,
    bodies: Sequence[bytes],
    message_ids: Sequence[bytes | None] | None,
    times: Times | None,
) -> Iterator[OutgoingMessage]:
    ids = message_ids or [None] * len(bodies)
    moments = repeat((outgoing.deliver_at, outgoing.expires_at), len(bodies)) if times is None else times.moments()
    for body, id_, (due, end) in zip(bodies, ids, moments, strict=True):
        known = None if id_ is None else UUID(bytes=id_)
        yield replace(outgoing, body=body, message_id=known, deliver_at=due, expires_at=end)
