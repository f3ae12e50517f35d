"""Counts in sentences."""

from __future__ import annotations

from django_mq.diagnosis.state.overview import COUNT_LIMIT

PLURALS = {"is": "are", "belongs": "belong"}


def plural(count: int, noun: str, verb: str = "") -> str:
    """Return ``1 message``, ``2 messages``; with the verb ``is``, ``1 message is``, ``2 messages are``."""
    return _words(f"{count:,}", noun, verb, one=count == 1)


def counted(count: int, noun: str, verb: str = "", *, limit: int = COUNT_LIMIT) -> str:
    """Return the same of a count that stopped at ``limit``: ``10,000 or more messages are``."""
    return _words(f"{count:,} or more" if count >= limit else f"{count:,}", noun, verb, one=count == 1)


def _words(number: str, noun: str, verb: str, *, one: bool) -> str:
    return f"{number} {noun}{'' if one else 's'} {verb if one else PLURALS.get(verb, verb)}".rstrip()
