"""Routing from an exchange to queues by bindings, as in AMQP 0-9-1: direct, topic and fanout."""

import re
from collections.abc import Iterable
from functools import lru_cache


def queues_matching(bindings: Iterable[tuple[str, str, str]], routing_key: str) -> list[str]:
    """Return the queues of the matching bindings, each once. A binding is (type, pattern, queue)."""
    return list(dict.fromkeys(queue for kind, pattern, queue in bindings if matches(kind, pattern, routing_key)))


def matches(exchange_type: str, pattern: str, routing_key: str) -> bool:
    """Whether the pattern of a binding matches this routing key."""
    if exchange_type == "fanout":
        return True
    if exchange_type == "topic":
        return _topic(pattern).fullmatch(routing_key) is not None
    return pattern == routing_key


@lru_cache(maxsize=1024)
def _topic(pattern: str) -> re.Pattern[str]:
    """Return a regular expression: ``*`` is exactly one word, ``#`` any number; dots separate words."""
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
