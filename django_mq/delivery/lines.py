"""Publish JSON lines: each line is a body, or an object with the arguments of ``publish``.

A file may be larger than memory: each batch has a transaction of its own. Publishing stops at a wrong line.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from django_mq.delivery.publisher import OutgoingMessage, check, publish_many
from django_mq.delivery.validation import read_time
from django_mq.errors import InvalidMessage, MQError, PublishError, PublishingStopped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Messages published by one transaction.
BATCH = 1000
#: The arguments that a line may give, and those of them that are times.
FIELDS = frozenset(field.name for field in fields(OutgoingMessage))
TIMES = ("deliver_at", "expires_at")


def publish_lines(lines: Iterable[bytes], template: OutgoingMessage, *, whole: bool = False, using: str) -> int:
    """Publish a message for each line that is not blank, in order; return how many.

    ``template`` holds the arguments that the lines do not give. A line is a body, or with ``whole`` an object.
    Raises PublishingStopped at a wrong line, or if interrupted: earlier batches are published.
    """
    published = 0
    try:
        for batch in _batches(lines):
            ready = [_read(number, line, template, whole, published) for number, line in batch]
            _publish(ready, published, using)
            published += len(batch)
    except KeyboardInterrupt:
        raise PublishingStopped(published, "Interrupted", PublishError("The rest is not published.")) from None
    return published


def _batches(lines: Iterable[bytes]) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the lines that are not blank, with their numbers."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    while batch := list(islice(numbered, BATCH)):
        yield batch


def _publish(ready: Sequence[tuple[int, OutgoingMessage]], published: int, using: str) -> None:
    try:
        publish_many([outgoing for _, outgoing in ready], using=using)
    except MQError as error:
        raise PublishingStopped(published, _where(ready), error) from error


def _read(
    number: int, line: bytes, template: OutgoingMessage, whole: bool, published: int
) -> tuple[int, OutgoingMessage]:
    try:
        said = json.loads(line)
        changes = _fields(said) if whole else {"body": said}
    except InvalidMessage as error:
        raise PublishingStopped(published, f"Line {number}", error) from None
    except (ValueError, RecursionError) as error:
        raise PublishingStopped(published, f"Line {number}", InvalidMessage(f"It is not JSON: {error}.")) from None
    return number, replace(template, **changes)


def _where(batch: Sequence[tuple[int, OutgoingMessage]]) -> str:
    """Name the wrong line, or all lines of the batch if each alone is right."""
    for number, outgoing in batch:
        try:
            check(outgoing)
        except MQError:
            return f"Line {number}"
    first, last = batch[0][0], batch[-1][0]
    return f"Line {first}" if first == last else f"Lines {first} to {last}"


def _fields(said: Any) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise InvalidMessage("It is not an object.")
    if unknown := sorted(set(said) - FIELDS):
        raise InvalidMessage(
            f"It has {unknown[0]!r}, which is no argument of publish(). These are: {', '.join(sorted(FIELDS))}."
        )
    times = {name: read_time(said[name], name) for name in TIMES if isinstance(said.get(name), str)}
    return {**said, **times}
