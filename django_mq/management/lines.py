"""Publish JSON lines: each is a body, an object with the arguments of ``publish``, or a line of ``mq_download``.

A file may be larger than memory: each batch has a transaction of its own. Publishing stops at a wrong line.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from dataclasses import fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from django_mq.delivery.publisher import OutgoingMessage, check, publish_many
from django_mq.delivery.validation import read_time
from django_mq.diagnosis.messages.copies import copy_of_line
from django_mq.engine.decisions.unique import Unique
from django_mq.errors import InvalidMessage, MQError, PublishError, PublishingStopped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Messages published by one transaction.
BATCH = 1000
#: The arguments that a line may give, and those of them that are times.
FIELDS = frozenset(field.name for field in fields(OutgoingMessage))
TIMES = ("deliver_at", "expires_at")
#: A key that only lines of ``mq_download`` have.
DOWNLOADED = "row"


def publish_lines(lines: Iterable[bytes], template: OutgoingMessage, *, whole: bool = False, using: str) -> int:
    """Publish a message for each line that is not blank, in order; return how many.

    ``template`` holds the arguments that the lines do not give. A line is a body, or with ``whole`` an object.
    Raises PublishingStopped at a wrong line, or if interrupted: earlier batches are published.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    published = 0
    try:
        while batch := list(islice(numbered, BATCH)):
            outgoing: list[tuple[int, OutgoingMessage]] = []
            for number, line in batch:
                try:
                    outgoing.append((number, _outgoing(line, template, whole=whole)))
                except InvalidMessage as error:
                    raise PublishingStopped(published, f"Line {number}", error) from None
            try:
                publish_many([each for _, each in outgoing], using=using)
            except MQError as error:
                raise PublishingStopped(published, _where(outgoing), error) from error
            published += len(batch)
    except KeyboardInterrupt:
        raise PublishingStopped(published, "Interrupted", PublishError("The rest is not published.")) from None
    return published


def _where(batch: Sequence[tuple[int, OutgoingMessage]]) -> str:
    """Name the wrong line, or all lines of the batch if each alone is right."""
    for number, outgoing in batch:
        try:
            check(outgoing)
        except MQError:
            return f"Line {number}"
    first, last = batch[0][0], batch[-1][0]
    return f"Line {first}" if first == last else f"Lines {first} to {last}"


def _outgoing(line: bytes, template: OutgoingMessage, *, whole: bool) -> OutgoingMessage:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"It is not JSON: {error}.") from None
    if not whole:
        return replace(template, body=given)
    if not isinstance(given, dict):
        raise InvalidMessage("It is not an object.")
    given = _with_body(given)
    return copy_of_line(given, template) if DOWNLOADED in given else replace(template, **_arguments(given))


def _with_body(given: dict[str, Any]) -> dict[str, Any]:
    """Return the same with bytes as the body if it is in base 64."""
    if "body" in given:
        return given
    try:
        encoded = given.pop("body_base64")
        return given | {"body": a2b_base64(encoded, strict_mode=True)}
    except KeyError:
        raise InvalidMessage('It has no body. Write "body": null for an empty one.') from None
    except (TypeError, ValueError) as error:
        raise InvalidMessage(f"Its body_base64 is not base 64: {error}.") from None


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    if unknown := sorted(set(given) - FIELDS):
        raise InvalidMessage(
            f"It has {unknown[0]!r}, which is no argument of publish(). These are: {', '.join(sorted(FIELDS))}."
        )
    if isinstance(given.get("unique"), dict):
        given["unique"] = _unique(given["unique"])
    return given | {name: read_time(given[name], name) for name in TIMES if isinstance(given.get(name), str)}


def _unique(given: dict[str, Any]) -> Unique:
    """Return the rule that a line has as an object."""
    values: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in given.items()
    }
    try:
        return Unique(**values)
    except TypeError as error:
        raise InvalidMessage(f"Its unique has a wrong name: {error}.") from None
