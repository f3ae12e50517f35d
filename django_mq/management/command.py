"""What the commands share: the database option, and clear sentences instead of tracebacks."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from django_mq import conf
from django_mq.errors import MQError
from django_mq.stores.translation import translating

if TYPE_CHECKING:
    from argparse import ArgumentParser


class MQCommand(BaseCommand):
    """A command on the queues of one database; a subclass implements ``run``.

    Exit codes: 0 done, 1 refused (with a sentence on stderr), 2 a command line that makes no sense.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--database", metavar="ALIAS", help="Where the queues are; DJANGO_MQ['DATABASE'].")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            alias = self._alias(options.pop("database", None))
            with translating(connections[alias]):
                self.run(alias, **options)
            self.stdout.flush()
        except MQError as error:
            raise CommandError(str(error)) from error
        except BrokenPipeError:
            # Whoever read the output has seen enough, as in "mq_browse orders | head"; the
            # interpreter must not try to write the rest while it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _alias(self, given: str | None) -> str:
        alias = given or conf.load().DATABASE
        if alias not in connections:
            raise CommandError(f"There is no database {alias!r}; DATABASES has {', '.join(connections)}.")
        return alias

    def run(self, alias: str, **options: Any) -> None:
        """Do the work. Raises MQError."""
        raise NotImplementedError


def until_told() -> threading.Event:
    """Return an event that TERM or INT sets: a command that goes on looks at it, and ends in its own time."""
    stopping = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stopping.set())
    return stopping
