"""Text that any database can store.

An exception may speak of a file whose name is no text, or quote a body with a zero byte in
it. PostgreSQL refuses both, and a verdict that cannot be written would be tried for ever.
"""

from __future__ import annotations


def storable(text: str, limit: int | None = None) -> str:
    """Return the text with whatever no database takes written as an escape, cut to the limit."""
    plain = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
    return plain[:limit]
