"""What processes do with batches, until they are killed: begin them, and handle their members and callbacks."""

from __future__ import annotations

import signal
import threading
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from django.db import DatabaseError, InterfaceError, connections, transaction

from django_mq.api import Reject, batch, current_batch, publish, publish_many
from django_mq.delivery.codecs import MESSAGE_ID
from django_mq.delivery.consumer.handlers import Handler
from django_mq.delivery.consumer.worker import Worker
from django_mq.errors import StoreError
from tests.proof import celery_worker
from tests.proof.notes import SENT, note

if TYPE_CHECKING:
    from django_mq.delivery.codecs import ReceivedMessage

QUEUE, TOLD = "proof", "told"
#: Members of a batch, before their handlers add some.
MEMBERS = 6


def begin_batches(*, tasks: bool = False, pause: float = 0.03) -> None:
    """Begin batches for ever, each in a transaction with its note; an outage costs a batch."""
    for number in count():
        try:
            with transaction.atomic(), batch(str(number), on_complete=(TOLD, "complete")) as made:
                if tasks:
                    for _ in range(MEMBERS):
                        id_ = str(uuid4())
                        options = {"queue": QUEUE, "ignore_result": True, MESSAGE_ID: id_}
                        celery_worker.app.send_task("proof.work", [id_], **options)
                else:
                    publish_many([(QUEUE, place) for place in range(MEMBERS)])
                note(SENT, [made.id])
        except (DatabaseError, InterfaceError, StoreError):
            connections["default"].close()
        threading.Event().wait(pause)


def handle_batches(*, members: bool = True) -> None:
    """Handle callbacks, and members: one of each batch is refused, and another one adds a further one."""

    def handle(message: ReceivedMessage) -> None:
        if message.body == 1:
            raise Reject("refused")
        if message.body == 2:
            with current_batch(message), transaction.atomic():
                publish(QUEUE, "further")

    wanted = [(QUEUE, handle), (TOLD, lambda _: None)] if members else [(TOLD, lambda _: None)]
    handlers = [
        Handler(queue=queue, function=function, credit=20, time_limit_seconds=None, transactional=True)
        for queue, function in wanted
    ]
    worker = Worker(handlers, threads=2)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()
