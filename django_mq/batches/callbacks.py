"""What a batch publishes when it ends, or at its first failure: checked, stored, and published once.

A message is published in the transaction of the end. A signature of Celery is published by the maintenance, a
moment later: Celery publishes over Django's connection, and not over that of the worker's session.
"""

from __future__ import annotations

import base64
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_mq import conf
from django_mq.delivery import hints, publisher
from django_mq.delivery.codecs import encode_json
from django_mq.delivery.queues import check_declared
from django_mq.engine.decisions.batches import CALLBACK_HEADER, BatchCallback
from django_mq.errors import InvalidMessage, TransactionLost, shown
from django_mq.seams.middleware import Publication, surrounded
from django_mq.stores.records import NewMessage, headers_in
from django_mq.stores.sql.savepoints import savepoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.batches")

#: What is stored of a message: its other fields have their defaults.
FIELDS = (
    *("queue_name", "content_type", "content_encoding", "headers", "priority", "type"),
    *("correlation_id", "group_key", "delay_seconds", "ttl_seconds"),
)


#: Why a task is not published yet.
LEFT_TO_MAINTENANCE = "The next maintenance publishes this task."


def stored(given: Any, what: BatchCallback, batch: UUID, store: Store) -> str:
    """Return a callback as it is stored: a pair of queue and body, an OutgoingMessage, or a signature of Celery.

    The middleware of publishing sees it now. Raises InvalidMessage or a subclass, and UnknownQueue.
    """
    if given is None:
        return ""
    if hasattr(given, "apply_async") and isinstance(given, dict):
        return encode_json({"signature": given}, f"on_{what.value}")
    if not isinstance(given, (tuple, publisher.OutgoingMessage)):
        raise InvalidMessage(
            f"on_{what.value} is {shown(given)}; give a pair of queue and body, an OutgoingMessage, or a signature"
            " of Celery."
        )
    outgoing = publisher.as_outgoing(given)
    if outgoing.exchange is not None or outgoing.unique is not None or outgoing.dedup_id is not None:
        raise InvalidMessage(f"on_{what.value} goes to a queue, without a dedup_id and without unique.")
    if outgoing.deliver_at is not None or outgoing.expires_at is not None:
        raise InvalidMessage(f"on_{what.value} takes a delay and a ttl, which begin when it is published.")
    message = publisher.check(outgoing)
    check_declared(message.queue_name, using=store.alias)
    message = publisher.with_headers(message, {**headers_in(message.headers), CALLBACK_HEADER: str(batch)})
    found: list[Any] = []
    publication = Publication(messages=[message], store=store)
    surrounded(conf.middleware().publishing, publication, lambda each: found.extend(each.messages))
    return _text(found[0])


def _text(message: NewMessage) -> str:
    fields = {name: getattr(message, name) for name in FIELDS}
    body = base64.b64encode(message.body).decode()
    return json.dumps(fields | {"body": body, "message_id": str(message.message_id)})


def is_signature(text: str) -> bool:
    """Whether a callback is a signature of Celery."""
    return "signature" in json.loads(text)


def _message(values: Mapping[str, Any]) -> NewMessage:
    fields: Any = {name: values[name] for name in FIELDS}
    return NewMessage(message_id=UUID(values["message_id"]), body=base64.b64decode(values["body"]), **fields)


def publish_once(store: Store, batch: UUID, what: BatchCallback, text: str) -> None:
    """Publish a callback of a batch whose row is locked, and note that; or note why it cannot be published.

    Limits of the queue do not refuse it. The maintenance tries again what could not be published.
    """
    database: Any = store.database
    if is_signature(text):
        database.rows("note_callback_problem", batch=batch, problem=f"on_{what.value}: {LEFT_TO_MAINTENANCE}")
        return
    try:
        with savepoint(database):
            [message] = publisher.marked([_message(json.loads(text))], conf.extensions().ends)
            write = partial(store.publications.append, message, again=False)
            publisher.declaring(store, [message.queue_name], write)
            database.rows("note_callback", batch=batch, callback=what.value)
    except TransactionLost:
        raise
    except Exception as error:  # the counts are kept if the queue is gone
        logger.exception("The callback on_%s of the batch %s is not published", what.value, batch)
        database.rows("note_callback_problem", batch=batch, problem=f"on_{what.value}: {error}"[:1000])
    else:
        hints.announce([message], store)


def publish_signature(store: Store, batch: UUID, what: BatchCallback, text: str) -> None:
    """Publish a task in the transaction that is open on Django's connection. Raises what Celery raises."""
    from celery import Signature, current_app  # noqa: PLC0415 - only where a callback is a task

    current_app.loader.import_default_modules()
    signature = Signature.from_dict(json.loads(text)["signature"], app=current_app)
    headers = (signature.options.get("headers") or {}) | {CALLBACK_HEADER: str(batch)}
    signature.apply_async(headers=headers)
    database: Any = store.database
    database.rows("note_callback", batch=batch, callback=what.value)
