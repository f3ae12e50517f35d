"""Workers of durable handlers, and publishers of the events for which they wait, until they are killed."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.core.management import call_command
from django.db import DatabaseError, InterfaceError, connections, transaction

from django_mq.api import consumer, emit
from django_mq.errors import StoreError
from tests.proof.notes import SENT, note, noted

if TYPE_CHECKING:
    from collections.abc import Callable

#: The queues of handlers in threads, whose steps are transactions, and in the event loop.
THREADS, COROUTINES = "threads", "coroutines"
#: The notes of what is done for a message: by its steps, and by the publisher of its event.
CHARGED, SHIPPED, PACKED = "charged", "shipped", "packed"
NAP_SECONDS: Final = 0.05


def work_on_orders() -> None:
    """Run ``mq_worker`` with both handlers: a step, a wait, a sleep, and a step that gets what came before."""

    def handle(message: Any) -> None:
        message.step("charge", note, CHARGED, [message.id])
        box = message.wait_for("packed", str(message.id))
        message.sleep(seconds=NAP_SECONDS)
        message.step("ship", note, SHIPPED, [UUID(box)])

    async def ahandle(message: Any) -> None:
        await message.astep("charge", note, CHARGED, [message.id])
        box = await message.await_for("packed", str(message.id))
        await message.asleep(seconds=NAP_SECONDS)
        await message.astep("ship", note, SHIPPED, [UUID(box)])

    consumer(THREADS, durable=True, transactional=True, max_attempts=0)(handle)
    consumer(COROUTINES, durable=True, max_attempts=0)(ahandle)
    call_command("mq_worker", "--queues", f"{THREADS},{COROUTINES}", "--threads", "2")


def pack_orders() -> None:
    """Emit the event of each message once, in a transaction with a note, in any order, until told to stop."""
    chance = random.Random()
    while True:
        try:
            left = list(noted(SENT, "default").keys() - noted(PACKED, "default").keys())
            for message in chance.sample(left, min(len(left), 10)):
                _pack(message)
        except (DatabaseError, InterfaceError, StoreError):
            connections["default"].close()
        threading.Event().wait(0.02)


def _pack(message: UUID) -> None:
    with transaction.atomic():
        note(PACKED, [message])
        if not emit("packed", str(message), str(message)):
            raise AssertionError(f"the event of {message} was there, and its note was not")


ORDER_ROLES: dict[str, Callable[..., None]] = {"work_on_orders": work_on_orders, "pack_orders": pack_orders}
