"""Publish one message from the command line, or many from JSON lines."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar
from uuid import UUID

from django.core.management.base import CommandError

from django_mq.api import OutgoingMessage, Unique, publish_many
from django_mq.delivery.codecs import BINARY, JSON, TEXT
from django_mq.delivery.operator.actions import publish_instead
from django_mq.delivery.validation import read_time
from django_mq.diagnosis.messages.copies import copy_of, with_body
from django_mq.diagnosis.messages.task_ids import with_task_id
from django_mq.engine.decisions.unique import SECOND
from django_mq.formats import plural
from django_mq.management.arguments import QUEUE, UsageError, argument, one_of
from django_mq.management.command import MQCommand
from django_mq.management.lines import publish_lines
from django_mq.management.progress import watched
from django_mq.models import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django.core.management.base import CommandParser


class Command(MQCommand):
    help = (
        "Publish one message and print its id. The body is JSON without --text or --binary; '-' reads it from "
        "the standard input. With --lines or --messages, publish a message for each line of the input."
    )

    arguments: ClassVar = (
        QUEUE,
        argument("body", metavar="BODY", nargs="?", help="The body; '-' for the standard input."),
        argument("--file", metavar="PATH", help="Read the body from a file."),
        one_of(
            argument("--text", dest="kind", action="store_const", const=TEXT, help="The body is plain text."),
            argument("--binary", dest="kind", action="store_const", const=BINARY, help="The body is bytes."),
        ),
        one_of(
            argument("--lines", action="store_true", help="Each line is the JSON body of a message."),
            argument(
                "--messages",
                action="store_true",
                help="Each line is an object: body, and any argument of publish(); or a line of mq_download.",
            ),
        ),
        argument(
            "--copy",
            metavar="MESSAGE_ID",
            type=UUID,
            help="Copy this message. What you do not give comes from it, but for its ids and times.",
        ),
        argument(
            "--cancel-original",
            action="store_true",
            help="With --copy: cancel that message in the same transaction; if that fails, publish nothing.",
        ),
        argument("--priority", type=int, help="0 to 9, 9 first; default: 4."),
        argument("--delay", type=float, metavar="SECONDS", help="Deliver after so many seconds."),
        argument(
            "--deliver-at",
            metavar="TIME",
            help="Deliver not before 2031-01-31T09:00+01:00; without an offset in the site's zone.",
        ),
        argument(
            "--ttl", type=float, metavar="SECONDS", help="Drop the message if no worker has taken it by then."
        ),
        argument("--header", action="append", default=[], metavar="NAME=VALUE", dest="headers"),
        argument("--type", default="", help="The type of the message."),
        argument("--group-key", metavar="KEY", help="The group whose messages are handled one after the other."),
        argument("--correlation-id", metavar="ID", help="What the message belongs to."),
        argument("--message-id", metavar="UUID", help="Refuse a second message with this id."),
        argument("--dedup-id", metavar="ID", help="Refuse a second message with this id, also when it has gone."),
        argument(
            "--unique",
            metavar="KEY",
            help="No other message with this key is published until this one is finished.",
        ),
        argument(
            "--second", choices=SECOND, help="With --unique: what to do with the second message; default: raise."
        ),
    )

    def create_parser(self, *args: Any, **options: Any) -> CommandParser:
        parser: CommandParser = super().create_parser(*args, **options)
        # Otherwise argparse finds no BODY after an option that follows QUEUE.
        parser.parse_args = parser.parse_intermixed_args  # type: ignore[method-assign]
        return parser

    def run(self, alias: str, **options: Any) -> None:
        if options["cancel_original"] and options["copy"] is None:
            raise UsageError("--cancel-original goes with --copy: it cancels the message that is copied.")
        outgoing = _outgoing(alias, options)
        if options["lines"] or options["messages"]:
            self._publish_lines(outgoing, alias, **options)
            return
        if options["copy"] is None or options["body"] is not None or options["file"] is not None:
            kind = options["kind"] or JSON
            body = _decoded(_raw(options["body"], options["file"]), kind)
            outgoing = with_body(outgoing, body, kind)
        if options["cancel_original"]:
            rows = Message.objects.using(alias).filter(message_id=options["copy"]).order_by("-pk")
            original = rows.values_list("pk", flat=True).first()
            message_id = publish_instead(outgoing, original, using=alias)
        else:
            (message_id,) = publish_many([outgoing], using=alias)
        self.answer({"published": 1, "message_id": str(message_id)}, str(message_id))

    def _publish_lines(self, outgoing: OutgoingMessage, alias: str, **options: Any) -> None:
        single = options["message_id"] or options["dedup_id"] or options["copy"] or options["unique"]
        if options["body"] not in {None, "-"} or single or options["kind"] not in {None, JSON}:
            raise UsageError(
                "--lines and --messages take neither BODY, --message-id, --dedup-id, --unique nor --copy, and only"
                " JSON."
            )
        with _opened(options["file"]) as lines:
            passing = watched(lines, unit="lines")
            number = publish_lines(passing, outgoing, whole=options["messages"], using=alias)
        self.answer({"published": number}, f"{plural(number, 'message')} published.")


def _outgoing(alias: str, options: dict[str, Any]) -> OutgoingMessage:
    """Return the message of the options, without its body."""
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
        group_key=options["group_key"] or start.group_key,
        correlation_id=options["correlation_id"] or start.correlation_id,
        message_id=options["message_id"],
        dedup_id=options["dedup_id"],
        unique=_unique(options["unique"], options["second"]),
    )
    return outgoing if copy is None else with_task_id(outgoing)


def _unique(key: str | None, second: str | None) -> Unique | None:
    if key is None:
        if second is not None:
            raise UsageError("--second goes with --unique.")
        return None
    return Unique(key=key, second=second or "raise")


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
    """Return the body's bytes from the argument, the file or the standard input."""
    if body is not None and file is not None:
        raise UsageError("Give BODY or --file, not both.")
    try:
        if file is not None:
            return Path(file).read_bytes()
        if body == "-":
            return _standard_input().read()
    except OSError as error:
        raise CommandError(f"The body cannot be read: {error}") from error
    if body is None:
        raise UsageError("Give the BODY, '-' to read it from the standard input, or --file.")
    # Bytes of the shell that are no UTF-8 are published unchanged.
    return body.encode("utf-8", "surrogateescape")


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
