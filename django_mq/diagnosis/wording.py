"""Counts in sentences."""

from __future__ import annotations

PLURALS = {"is": "are", "belongs": "belong"}


def plural(count: int, noun: str, verb: str = "") -> str:
    """Return ``1 message``, ``2 messages``; with the verb ``is``, ``1 message is``, ``2 messages are``."""
    one = count == 1
    return f"{count:,} {noun}{'' if one else 's'} {verb if one else PLURALS.get(verb, verb)}".rstrip()
