"""What the commands share: the database option, exit codes, and clear sentences instead of tracebacks."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from django_mq import conf
from django_mq.diagnosis.messages.queue_names import meant
from django_mq.errors import MQError, UnknownQueue
from django_mq.management.arguments import UsageError
from django_mq.management.completion import offer_queues
from django_mq.stores.connections import translating

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterator
    from types import FrameType

    from django.core.management.base import CommandParser


#: As shells say it.
INTERRUPTED = 130


class MQCommand(BaseCommand):
    """A command on the queues of one database; a subclass implements ``run``."""

    #: What each exit code of every command says; a command adds what it says by its own.
    EXIT_CODES: ClassVar[dict[int, str]] = {
        0: "done",
        1: "refused or failed, with one sentence on the standard error",
        2: "a command line that makes no sense; nothing was done",
        INTERRUPTED: "interrupted by INT",
    }
    exit_codes: ClassVar[dict[int, str]] = {}

    def create_parser(self, *args: Any, **options: Any) -> CommandParser:
        codes = {**self.EXIT_CODES, **self.exit_codes}
        said = "; ".join(f"{code}: {meaning}" for code, meaning in sorted(codes.items()))
        parser: CommandParser = super().create_parser(*args, **{"epilog": f"Exit codes: {said}.", **options})
        offer_queues(parser)
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--database", metavar="ALIAS", help="Where the queues are; DJANGO_MQ['DATABASE'].")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            alias = self._alias(options.pop("database", None))
            with translating(connections[alias]), _committing(alias):
                self._run(alias, **options)
            self.stdout.flush()
        except MQError as error:
            raise CommandError(str(error)) from error
        except BrokenPipeError:
            # Whoever read the output has seen enough, as in "mq_browse orders | head".
            _write_no_more()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            _write_no_more()
            raise CommandError(f"The output cannot be written: {error}") from error
        except KeyboardInterrupt:
            self.stderr.write("Interrupted: what was done before stays done.")
            raise SystemExit(INTERRUPTED) from None

    def _run(self, alias: str, **options: Any) -> None:
        try:
            self.run(alias, **options)
        except UnknownQueue as error:
            raise CommandError(f"{error}{meant(error.queue, alias)}") from error
        except UnicodeEncodeError as error:
            # What is typed and is no UTF-8 comes as halves of surrogate pairs, which no database takes.
            raise UsageError(f"{error.object!a} is no text: write it in UTF-8.") from error

    def _alias(self, given: str | None) -> str:
        alias = given or conf.load().DATABASE
        if alias not in connections:
            raise CommandError(f"There is no database {alias!r}; DATABASES has {', '.join(connections)}.")
        return alias

    def run(self, alias: str, **options: Any) -> None:
        """Do the work. Raises MQError."""
        raise NotImplementedError


@contextmanager
def _committing(alias: str) -> Iterator[None]:
    """Commit what is written on a connection that the command opens, though ``AUTOCOMMIT`` be False."""
    connection = connections[alias]
    if connection.settings_dict["AUTOCOMMIT"] or connection.connection is not None:
        yield
        return
    connection.set_autocommit(True)
    try:
        yield
    finally:
        connection.close()


def _write_no_more() -> None:
    """Keep the interpreter from writing the rest while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def until_told() -> threading.Event:
    """Return an event that TERM or INT sets: a command that goes on looks at it, and ends in its own time."""
    stopping = threading.Event()
    on_signals(lambda *_: stopping.set())
    return stopping


def on_signals(handler: Callable[[int, FrameType | None], Any]) -> None:
    """Have TERM and INT call the handler, but not in forked children: these end as this process did before."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, earlier in before.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, earlier)

    os.register_at_fork(after_in_child=restore)
