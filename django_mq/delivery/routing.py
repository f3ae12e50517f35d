"""From an exchange to queues, by their bindings. AMQP 0-9-1's direct, topic and fanout."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from django_mq.delivery.validation import plain

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage


def route(store: Store, exchange: str | None, routing_key: str | None, message: NewMessage) -> list[NewMessage]:
    """Return one copy of the message per queue it goes to; without an exchange, the message itself."""
    if exchange is None:
        return [message]
    return [replace(message, queue_name=name) for name in queues_bound(store, plain(exchange), routing_key or "")]


def queues_bound(store: Store, exchange: str, routing_key: str) -> list[str]:
    """Return, each once, the names of the durable queues whose binding matches."""
    bound = store.bindings(exchange)
    return list(dict.fromkeys(queue for kind, pattern, queue in bound if matches(kind, pattern, routing_key)))


def matches(exchange_type: str, pattern: str, routing_key: str) -> bool:
    """Whether a binding's pattern takes this routing key."""
    if exchange_type == "fanout":
        return True
    if exchange_type == "topic":
        return _topic(pattern).fullmatch(routing_key) is not None
    return pattern == routing_key


@lru_cache(maxsize=1024)
def _topic(pattern: str) -> re.Pattern[str]:
    """``*`` is exactly one word, ``#`` any number of words, words are separated by dots."""
    expression = ""
    for position, word in enumerate(pattern.split(".")):
        dot = r"\." if position else ""
        if word == "#":
            expression += rf"(?:{dot}[^.]+)*" if position else r"(?:[^.]+(?:\.[^.]+)*)?"
        else:
            expression += dot + (r"[^.]+" if word == "*" else re.escape(word))
    if pattern.startswith("#."):
        # "#.a" also takes "a" alone: the dot after an empty "#" is not there.
        expression = rf"(?:[^.]+\.)*{_topic(pattern[2:]).pattern}"
    return re.compile(expression)
