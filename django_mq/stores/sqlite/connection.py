"""What a SQLite connection needs, and how values look that go over it.

It needs patience for the write lock, and a log that readers do not block. Write-ahead logging is a lasting
property of the user's file, with files beside it that a backup must know of. It is therefore recommended by a
check and never switched on without the user's knowledge.

Times are text in UTC, ids are hex digits, arrays are JSON. A time is written with all six digits of its fraction,
``2031-01-01 09:00:00.000000``, so that text order is time order. Django leaves the fraction out when it is zero;
such a text is a prefix of ours and sorts just before it, which is right for every ``<=`` here.
"""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_mq.stores.records import EPOCH
from django_mq.stores.statements import PARAMETER
from django_mq.stores.values import later

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_mq.stores.records import NewMessage


#: The first version with RETURNING and MATERIALIZED.
OLDEST = (3, 35, 0)
#: How long a worker waits for the write lock when the settings do not say. Less than a session's
#: deadline, so that a worker that was kept waiting can still renew it.
PATIENCE_SECONDS = 10.0


def with_patience(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a private connection: the site's own, and how long to wait for a lock."""
    return {**settings, "OPTIONS": {"timeout": PATIENCE_SECONDS, **settings["OPTIONS"]}}


def problems(settings: Mapping[str, Any], journal_mode: str) -> list[tuple[str, str]]:
    """Return (problem, hint) for what makes the queue slow or fragile."""
    found = []
    if sqlite3.sqlite_version_info < OLDEST:
        found.append((f"SQLite {sqlite3.sqlite_version} is too old.", "Use SQLite 3.35 or later."))
    if journal_mode not in {"wal", "memory"}:
        hint = "Add 'init_command': 'PRAGMA journal_mode=WAL;' to the OPTIONS of the database."
        found.append(("SQLite runs without write-ahead logging: readers and the writer block each other.", hint))
    if str(settings["OPTIONS"].get("transaction_mode")).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        hint = "Add 'transaction_mode': 'IMMEDIATE' to the OPTIONS of the database."
        found.append(("A transaction that reads before it publishes may fail with 'database is locked'.", hint))
    return found


MICROSECOND = timedelta(microseconds=1)
#: A batch whose messages differ in nothing else: by far the most frequent one.
FENCE = {"ids", "claims"}


def parameters(params: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Fit a statement's parameters to the driver, ``now`` among them.

    A number of ``..._seconds`` gets a twin ``..._seconds_from_now``, the time so far ahead.
    One list becomes the JSON array of its name; ids and their claims alone become one object,
    ``held``; other lists become one array of objects, ``given``.
    """
    fitted = {"now": text_of(now), "now_microseconds": (now - EPOCH) // MICROSECOND}
    columns = {}
    for name, value in params.items():
        if isinstance(value, list):
            columns[name] = value
        else:
            fitted |= _scalar(name, value, now)
    if columns.keys() == FENCE:
        return fitted | {"held": _by_claim(**columns)}
    if len(columns) > 1:
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return fitted | {"given": json.dumps([_object(row, now) for row in rows])}
    return fitted | {name: json.dumps(value) for name, value in columns.items()}


@cache
def as_driver_reads(text: str) -> str:
    """Return a statement with its parameters named as the driver has them, ``:name``."""
    return PARAMETER.sub(r":\1", text).replace("%%", "%")


def at_once(message: NewMessage, now: datetime) -> dict[str, Any]:
    """Return the parameters of append_at_once, in a third of the time that ``parameters`` takes."""
    return {
        "queue_name": message.queue_name,
        "message_id": message.message_id.hex,
        "body": message.body,
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        "headers": message.headers,
        "properties": message.properties,
        "priority": message.priority,
        "type": message.type,
        "correlation_id": message.correlation_id,
        "group_key": message.group_key,
        "now": text_of(now),
        "now_microseconds": (now - EPOCH) // MICROSECOND,
    }


def _object(row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    return {key: value for name, item in row.items() for key, value in _scalar(name, item, now).items()}


def _scalar(name: str, value: Any, now: datetime) -> dict[str, Any]:
    if name.endswith("seconds"):
        return {name: value, f"{name}_from_now": None if value is None else text_of(later(now, value))}
    if isinstance(value, datetime):
        return {name: text_of(value)}
    if isinstance(value, UUID):
        return {name: value.hex}
    return {name: value}


def _by_claim(ids: Sequence[int], claims: Sequence[int]) -> str:
    """Return the ids under the claim that each was given with, as JSON: a batch has few claims and many ids."""
    found: dict[int, list[int]] = {}
    for id_, claim in zip(ids, claims, strict=True):
        found.setdefault(claim, []).append(id_)
    # An id that was given twice is remembered once.
    return json.dumps({claim: list(dict.fromkeys(ids)) for claim, ids in found.items()})


def text_of(time: datetime) -> str:
    """Return the text of an aware time."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def time_of(value: Any) -> datetime | None:
    """Return the aware time of a column: text, or what Django's converter made of it."""
    if value is None:
        return None
    naive = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return naive.replace(tzinfo=UTC)
