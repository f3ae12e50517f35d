"""Publish one message from the command line, or many from JSON lines."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import UUID

from django.core.management.base import CommandError

from django_mq.api import OutgoingMessage, publish_many
from django_mq.delivery.codecs import BINARY, JSON, TEXT
from django_mq.delivery.lines import publish_lines
from django_mq.delivery.validation import read_time
from django_mq.diagnosis.messages.copies import copy_of, with_body
from django_mq.diagnosis.messages.task_ids import with_task_id
from django_mq.management.arguments import UsageError, add_json
from django_mq.management.command import MQCommand
from django_mq.management.progress import watched
from django_mq.management.tables import plural

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Iterator

    from django.core.management.base import CommandParser


class Command(MQCommand):
    help = (
        "Publish one message and print its id. The body is JSON, unless --text or --binary says otherwise; "
        "'-' reads it from the standard input. With --lines or --messages, one message for each line of it."
    )

    def create_parser(self, *args: Any, **options: Any) -> CommandParser:
        parser: CommandParser = super().create_parser(*args, **options)
        # Otherwise an option between QUEUE and BODY would end the search for BODY.
        parser.parse_args = parser.parse_intermixed_args  # type: ignore[method-assign]
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("queue", metavar="QUEUE")
        parser.add_argument("body", metavar="BODY", nargs="?", help="The body; '-' for the standard input.")
        parser.add_argument("--file", metavar="PATH", help="Read the body from a file.")
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument("--text", dest="kind", action="store_const", const=TEXT, help="The body is plain text.")
        kind.add_argument("--binary", dest="kind", action="store_const", const=BINARY, help="... is just bytes.")
        many = parser.add_mutually_exclusive_group()
        many.add_argument("--lines", action="store_true", help="Each line is the JSON body of a message.")
        many.add_argument(
            "--messages", action="store_true", help="Each line is an object: body, and any argument of publish()."
        )
        parser.add_argument(
            "--copy",
            metavar="MESSAGE_ID",
            type=UUID,
            help="As this message: its body without BODY, its headers, type and priority where none are given.",
        )
        parser.add_argument("--priority", type=int, help="0 to 9, 9 first; 4 without it.")
        parser.add_argument("--delay", type=float, metavar="SECONDS", help="Deliver not before so long from now.")
        parser.add_argument(
            "--deliver-at",
            metavar="TIME",
            help="Not before, as in 2031-01-31T09:00+01:00; a time without an offset is the site's.",
        )
        parser.add_argument("--ttl", type=float, metavar="SECONDS", help="Drop it if not taken by then.")
        parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", dest="headers")
        parser.add_argument("--type", default="", help="What kind of message it is.")
        parser.add_argument("--message-id", metavar="UUID", help="So that a repeated publish is refused.")
        add_json(parser)

    def run(self, alias: str, **options: Any) -> None:
        outgoing = _outgoing(alias, options)
        if options["lines"] or options["messages"]:
            self._publish_lines(outgoing, alias, **options)
            return
        if options["copy"] is None or options["body"] is not None or options["file"] is not None:
            kind = options["kind"] or JSON
            body = _decoded(_raw(options["body"], options["file"]), kind)
            outgoing = with_body(outgoing, body, kind)
        (message_id,) = publish_many([outgoing], using=alias)
        self._say(1, str(message_id), as_json=options["json"], message_id=str(message_id))

    def _publish_lines(self, outgoing: OutgoingMessage, alias: str, **options: Any) -> None:
        single = options["message_id"] or options["copy"]
        if options["body"] not in {None, "-"} or single or options["kind"] not in {None, JSON}:
            raise UsageError("With many lines there is no BODY, --message-id or --copy, and nothing but JSON.")
        with _opened(options["file"]) as lines:
            passing = watched(lines, unit="lines")
            number = publish_lines(passing, outgoing, whole=options["messages"], using=alias)
        self._say(number, f"{plural(number, 'message')} published.", as_json=options["json"])

    def _say(self, number: int, text: str, *, as_json: bool, **more: str) -> None:
        self.stdout.write(json.dumps({"published": number, **more}) if as_json else text)


def _outgoing(alias: str, options: dict[str, Any]) -> OutgoingMessage:
    """Return what the options say of a message, its body aside."""
    copy = options["copy"]
    start = OutgoingMessage() if copy is None else copy_of(copy, using=alias)
    at = options["deliver_at"]
    outgoing = replace(
        start,
        queue=options["queue"],
        priority=start.priority if options["priority"] is None else options["priority"],
        delay=options["delay"],
        deliver_at=None if at is None else read_time(at, "--deliver-at"),
        ttl=options["ttl"],
        headers={**(start.headers or {}), **dict(_header(text) for text in options["headers"])},
        type=options["type"] or start.type,
        message_id=options["message_id"],
    )
    return outgoing if copy is None else with_task_id(outgoing)


@contextmanager
def _opened(file: str | None) -> Iterator[Iterable[bytes]]:
    if file is None:
        yield _standard_input()
        return
    try:
        with Path(file).open("rb") as lines:
            yield lines
    except OSError as error:
        raise CommandError(f"The lines cannot be read: {error}") from error


def _raw(body: str | None, file: str | None) -> bytes:
    """Return the body's bytes, from wherever they come; no body is JSON's null."""
    if body is not None and file is not None:
        raise UsageError("Give BODY or --file, not both.")
    try:
        if file is not None:
            return Path(file).read_bytes()
        if body == "-":
            return _standard_input().read()
    except OSError as error:
        raise CommandError(f"The body cannot be read: {error}") from error
    # What the shell passed may be no UTF-8; it is published as it came.
    return b"null" if body is None else body.encode("utf-8", "surrogateescape")


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise CommandError("There is no standard input to read.")
    return sys.stdin.buffer


def _decoded(body: bytes, kind: str) -> Any:
    if kind == BINARY:
        return body
    try:
        text = body.decode()
        return json.loads(text) if kind == JSON else text
    except UnicodeDecodeError:
        raise CommandError("The body is not UTF-8; publish it with --binary.") from None
    except (ValueError, RecursionError) as error:
        raise CommandError(f"The body is not JSON ({error}); publish plain text with --text.") from None


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--header {text!r} is not of the form NAME=VALUE.")
    return name, value
