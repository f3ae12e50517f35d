"""What the processes of a place write down: one row each time a message is published or handled."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Iterable

SENT, DONE = "sent", "done"


def make_table(alias: str) -> None:
    """Make the table; it has no unique key, so that a thing done twice shows as two rows."""
    with connections[alias].cursor() as cursor:
        cursor.execute("CREATE TABLE proof_note (kind varchar(10), message varchar(36), pid integer)")


def note(kind: str, messages: Iterable[UUID], alias: str = "default") -> None:
    """Write a row for each message, in the transaction that is open, if one is."""
    rows = [(kind, str(message), os.getpid()) for message in messages]
    with connections[alias].cursor() as cursor:
        cursor.executemany("INSERT INTO proof_note (kind, message, pid) VALUES (%s, %s, %s)", rows)


def noted(kind: str, alias: str) -> Counter[UUID]:
    """Return how often each message was noted."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT message FROM proof_note WHERE kind = %s", [kind])
        return Counter(UUID(message) for (message,) in cursor.fetchall())


def all_noted(alias: str) -> Counter[str]:
    """Return how often each kind was noted."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT kind FROM proof_note")
        return Counter(kind for (kind,) in cursor.fetchall())


def forget_notes(alias: str) -> None:
    """Delete all notes."""
    with connections[alias].cursor() as cursor:
        cursor.execute("DELETE FROM proof_note")
