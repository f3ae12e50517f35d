"""The base of all commands: shared options, exit codes, and clear sentences instead of tracebacks."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connections

from django_mq import conf
from django_mq.acts import recorder
from django_mq.acts.command_lines import shell_line
from django_mq.acts.operators import of_command
from django_mq.delivery.queues import explained
from django_mq.errors import MQError, UnknownQueue
from django_mq.management.arguments import UsageError
from django_mq.process import at_fork
from django_mq.stores.connections import translating

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType

    from django.core.management.base import CommandParser

    from django_mq.acts.models import Act
    from django_mq.management.arguments import Argument

#: The exit code that shells use for INT.
INTERRUPTED = 130


class MQCommand(BaseCommand):
    """A command on the queues of one database; a subclass implements ``run``."""

    #: The meaning of the exit codes of every command; ``exit_codes`` has those of one command.
    EXIT_CODES: ClassVar[dict[int, str]] = {
        0: "done",
        1: "refused or failed, with one sentence on the standard error",
        2: "a wrong command line; nothing was done",
        INTERRUPTED: "interrupted by INT",
    }
    exit_codes: ClassVar[dict[int, str]] = {}
    arguments: ClassVar[Sequence[Argument]] = ()
    #: What --dry-run prints; empty for a command without this option.
    dry_run = ""
    #: What --json prints; empty for a command without this option.
    json = "a JSON object"
    #: The command as it was typed.
    typed = ""

    def run_from_argv(self, argv: list[str]) -> None:
        self.typed = shell_line(argv[1:])
        super().run_from_argv(argv)

    def new_act(self, model: str, name: str, **values: Any) -> Act:
        """Return an act of the user of the command, which is not written yet."""
        typed = self.typed or type(self).__module__.rpartition(".")[2]
        return recorder.new_act(of_command(), model, name, command=typed, **values)

    def note(self, alias: str, model: str, name: str, abouts: Iterable[object], **values: Any) -> None:
        """Write an act that is done to each of these rows."""
        for about in abouts:
            recorder.write(self.new_act(model, name, about=about, **values), using=alias)

    def create_parser(self, *args: Any, **options: Any) -> CommandParser:
        codes = {**self.EXIT_CODES, **self.exit_codes}
        meanings = "; ".join(f"{code}: {meaning}" for code, meaning in sorted(codes.items()))
        return super().create_parser(*args, **{"epilog": f"Exit codes: {meanings}.", **options})

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--database", metavar="ALIAS", help="The database of the queues; default: DJANGO_MQ['DATABASE']."
        )
        for add in self.arguments:
            add(parser)
        if self.dry_run:
            parser.add_argument("--dry-run", action="store_true", help=f"Print {self.dry_run}; change nothing.")
        if self.json:
            parser.add_argument("--json", action="store_true", help=f"Print {self.json}.")

    def answer(self, value: object, text: str) -> None:
        """Print the value for --json, otherwise the text."""
        if self.as_json:
            indent = 2 if isinstance(value, list) else None
            text = json.dumps(value, indent=indent, cls=DjangoJSONEncoder)
        self.stdout.write(text)

    def handle(self, *_: Any, **options: Any) -> None:
        self.as_json: bool = options.get("json", False)
        try:
            alias = self._alias(options.pop("database", None))
            with translating(connections[alias]), _committing(alias):
                self._run(alias, **options)
            self.stdout.flush()
        except MQError as error:
            raise CommandError(str(error)) from error
        except BrokenPipeError:
            # The reader of the output has closed it, as in "mq_browse orders | head".
            _stop_writing()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            _stop_writing()
            raise CommandError(f"The output cannot be written: {error}") from error
        except KeyboardInterrupt:
            self.stderr.write("Interrupted: what was done before remains done.")
            raise SystemExit(INTERRUPTED) from None

    def _run(self, alias: str, **options: Any) -> None:
        try:
            self.run(alias, **options)
        except UnknownQueue as error:
            raise CommandError(explained(error, alias)) from error
        except UnicodeEncodeError as error:
            # Typed bytes that are no UTF-8 arrive as halves of surrogate pairs, which no database stores.
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
    """Commit each statement on a connection that the command opens, even if ``AUTOCOMMIT`` is False."""
    connection = connections[alias]
    if connection.settings_dict["AUTOCOMMIT"] or connection.connection is not None:
        yield
        return
    connection.set_autocommit(True)
    try:
        yield
    finally:
        connection.close()


def _stop_writing() -> None:
    """Keep the interpreter from writing the rest of the output when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def until_told() -> threading.Event:
    """Return an event that TERM or INT sets, for commands that run until then."""
    stopping = threading.Event()
    on_signals(lambda *_: stopping.set())
    return stopping


@contextmanager
def until_signalled() -> Iterator[threading.Event]:
    """Yield an event that the first TERM or INT sets; the next one has the effect that it had before.

    In other threads than the main one, no signal sets it.
    """
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return

    def restore() -> None:
        for number, earlier in before.items():
            signal.signal(number, earlier)

    def stop(*_: object) -> None:
        stopping.set()
        restore()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        restore()


def on_signals(handler: Callable[[int, FrameType | None], Any]) -> None:
    """Have TERM and INT call the handler in this process; forked children keep the handlers from before."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, earlier in before.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, earlier)

    at_fork(after_in_child=restore)
