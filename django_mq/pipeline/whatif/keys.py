"""The keys of messages, as far as the history knows them, and the shares of keys."""

from __future__ import annotations

from collections import Counter
from itertools import repeat
from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from django_mq.engine.decisions.keyed_limits import ARGUMENT, FIELD, HEADER, KeyedLimit
from django_mq.engine.message import Message
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

#: The columns of the history from which keys are read.
COLUMNS: Final = ("type", "headers", "body")
#: What names the key of fair places: a header, or else an argument or a field of the body.
FAIR: Final = "fair:"
#: The most keys that a report names; the others are together.
MOST_KEYS: Final = 9
OTHERS: Final = "all others"
WITHOUT: Final = "without"


def _limit(key: str) -> KeyedLimit:
    return KeyedLimit(name="key", key=key)


def argument_of(message: Message, name: str) -> str | None:
    """Return an argument of a task that was called with its name, or a field of a body."""
    found = (_limit(f"{kind}{name}").key_of(message) for kind in (ARGUMENT, FIELD))
    return next((text for text in found if text is not None), None)


def key_of(key: str, message: Message) -> str | None:
    """Return the key of a message, None if it has none."""
    if not key.startswith(FAIR):
        return _limit(key).key_of(message)
    name = key.removeprefix(FAIR)
    header = _limit(f"{HEADER}{name}").key_of(message)
    return argument_of(message, name) if header is None else header


# What the history knows.


def columns_of(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the columns from which keys are read."""
    kinds = {key.partition(":")[0] for key in keys}
    wanted = {
        "type": bool(kinds),
        "headers": bool(kinds & {"header", "fair"}),
        "body": bool(kinds & {"body", "argument", "fair"}),
    }
    return tuple(name for name in COLUMNS if wanted[name])


class Known(NamedTuple):
    """How many messages there are, and how many of them have headers, a body, and each key."""

    messages: int
    headers: int
    bodies: int
    found: Mapping[str, int]

    def problem_of(self, key: str) -> str | None:
        """Return why the history cannot say a key; None if it can."""
        if key == "group":
            return "the history has no groups"
        kind, _, name = key.partition(":")
        if kind == "header" and self.headers < self.messages:
            return f"the history has the headers of {self.headers:,} of {self.messages:,} messages"
        if kind in {"body", "argument"} and self.bodies < self.messages:
            return (
                f"the history has the bodies of {self.bodies:,} of {self.messages:,} messages;"
                " set history_body for the queue, or use a header"
            )
        if self.messages and not self.found[key]:
            return (
                f"no message has the header, the argument or the field {name!r}"
                if kind == "fair"
                else "no message has it"
            )
        return None


def known_keys(trace: DataFrame, keys: Iterable[str]) -> Known:
    """Return what a trace knows of keys."""
    asked = tuple(keys)
    totals: Counter[str] = Counter()
    for name, count in trace.mapInArrow(_counter(asked), "name string, count bigint").collect():
        totals[name] += count
    return Known(totals[""], totals["/headers"], totals["/body"], {key: totals[f"={key}"] for key in asked})


def _counter(keys: Sequence[str]) -> Callable[..., Iterator[pa.RecordBatch]]:
    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        counts: Counter[str] = Counter()
        for batch in batches:
            counts[""] += batch.num_rows
            for name in {"headers", "body"} & set(batch.schema.names):
                counts[f"/{name}"] += batch.num_rows - batch.column(name).null_count
            for message in messages_of(batch):
                counts.update(f"={key}" for key in keys if key_of(key, message) is not None)
        yield pa.RecordBatch.from_pydict({"name": [*counts], "count": [*counts.values()]})

    return count


def messages_of(rows: pa.Table | pa.RecordBatch) -> Iterator[Message]:
    """Yield the messages of rows of the history, with what their keys are read from."""
    given = {
        name: rows.column(name).to_pylist() if name in rows.schema.names else repeat(None) for name in COLUMNS
    }
    for type_, headers, body in zip(*given.values(), strict=False):
        yield Message(
            id="",
            type=type_ or "",
            headers=headers_in(headers or "{}"),
            body=body or b"",
            # The history does not say what a body is: it has keys if it can be read.
            content_type="application/json",
        )


# Shares.


def named(keys: Iterable[str | None]) -> list[str]:
    """Return the key of each message as a report names it: the most common ones, and one name for all others.

    >>> named(["a", None, "a"])
    ['a', 'without', 'a']
    """
    given = [WITHOUT if key is None else key for key in keys]
    most = {key for key, _ in sorted(Counter(given).items(), key=lambda item: (-item[1], item[0]))[:MOST_KEYS]}
    return [key if key in most else OTHERS for key in given]


def shares(keys: Sequence[str | None], arrived: Sequence[float], waits: Sequence[float | None]) -> list[bool]:
    """Return for each message whether it began while a message of another key waited.

    >>> shares(["a", "b", "b"], [0, 0, 9], [1, 2, 0])
    [True, False, False]
    """
    events = [
        (at, 0, number)
        for number, (at, wait) in enumerate(zip(arrived, waits, strict=True))
        if wait is not None and not isnan(wait)
    ]
    events += [(at + (waits[number] or 0.0), 1, number) for at, _, number in events]
    waiting: Counter[str | None] = Counter()
    contended = [False] * len(keys)
    for _, begins, number in sorted(events):
        key = keys[number]
        if not begins:
            waiting[key] += 1
            continue
        contended[number] = len(waiting) > 1
        waiting[key] -= 1
        if not waiting[key]:
            del waiting[key]
    return contended
