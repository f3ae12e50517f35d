"""Django signals and log events about messages.

A signal without receivers costs a look at an empty list. An exception of a receiver is logged, and stops
neither the publish nor the delivery.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from django.dispatch import Signal

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger("django_mq.events")

#: A message is about to be published, in the caller's transaction. ``headers`` is a dict that may be
#: added to; ``queue``, ``exchange``, ``type``, ``using``.
message_publishing = Signal()
#: Messages are published, after the commit: ``message_ids``, ``using``.
messages_published = Signal()
#: A handler is about to be called, in its thread; before a coroutine function, this is any thread: ``message``.
attempt_started = Signal()
#: It has ended, in the same thread, or any: ``message``, ``outcome`` (accepted, released, declined, retried,
#: dead), ``error`` (the exception or None), ``seconds``.
attempt_finished = Signal()
#: A queue delivers nothing: ``queue``, ``reason``, ``seconds`` (None: until resumed), ``using``.
queue_paused = Signal()
#: It delivers again: ``queue``, ``using``.
queue_resumed = Signal()

#: Every signal by name: the log's events, with their arguments, have the same names.
EVENTS: Mapping[str, Signal] = {
    "message_publishing": message_publishing,
    "messages_published": messages_published,
    "attempt_started": attempt_started,
    "attempt_finished": attempt_finished,
    "queue_paused": queue_paused,
    "queue_resumed": queue_resumed,
}
_NAMES = {id(signal): name for name, signal in EVENTS.items()}


def is_wanted(signal: Signal) -> bool:
    """Return whether telling would reach anybody: a receiver, or a log that takes events."""
    return bool(signal.receivers) or logger.isEnabledFor(logging.DEBUG)


def tell(signal: Signal, **arguments: Any) -> None:
    """Tell every receiver, and the log at level DEBUG with what JSON can say of the arguments."""
    if not is_wanted(signal):
        return
    name = _NAMES[id(signal)]
    for receiver, answer in signal.send_robust(sender=name, **arguments):
        if isinstance(answer, Exception):
            logger.error("A receiver of %s failed: %r", name, receiver, exc_info=answer)
    if logger.isEnabledFor(logging.DEBUG):
        details = {key: _plain(key, value) for key, value in arguments.items()}
        logger.debug("%s", name, extra={"event": name, "details": details})


def _plain(name: str, value: Any) -> Any:
    """Return an argument as a log may keep it: no bodies, and of headers only the names."""
    if name == "message":
        return {
            "id": str(value.id),
            "queue": value.queue,
            "type": value.type,
            "priority": value.priority,
            "attempt": value.attempt,
        }
    if name == "message_ids":
        return [str(each) for each in value]
    if name == "headers":
        return sorted(map(str, value))
    return repr(value) if isinstance(value, BaseException) else value
