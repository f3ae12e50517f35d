"""``manage.py demo``: the library index from an empty database to a checked result."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from django.core.management.base import BaseCommand, CommandError

from config.settings import THROUGH
from library.demo.errors import DemoFailed
from library.demo.run import Demo

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Run the demo and return an exit code."""

    help = "Index Python's standard library by way of a queue, with a real Celery worker, and check the result."
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--limit", type=int, metavar="FILES", help="index about so many files only")
        parser.add_argument("--keep", action="store_true", help="go on with the index of the last run")
        parser.add_argument("--kill-once", action="store_true", help="kill -9 the worker half way through")
        parser.add_argument(
            "--spark", action="store_true", help="archive the history and learn from it; needs Java"
        )
        parser.add_argument("--serve", action="store_true", help="leave the site and the worker up until Ctrl-C")
        parser.add_argument("--port", type=int, default=8000, help="port of the site (default 8000)")

        parser.add_argument(
            "--through", metavar="URL", help="send the tasks on to Celery workers on this RabbitMQ: amqp://..."
        )

    def handle(self, **options: Any) -> None:
        """Run the demo."""
        through = options["through"]
        if through and os.environ.get(THROUGH) != through:
            # The settings are read before the options are.
            os.environ[THROUGH] = through
            os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the command line of this process
        signal.signal(signal.SIGTERM, interrupt)
        signal.signal(signal.SIGHUP, interrupt)
        demo = Demo(
            limit=options["limit"],
            keep=options["keep"],
            kill_once=options["kill_once"],
            spark=options["spark"],
            port=options["port"] if options["serve"] else None,
            through=os.environ.get(THROUGH) or None,
        )
        try:
            demo.run()
        except DemoFailed as failed:
            raise CommandError(str(failed)) from None
        except KeyboardInterrupt:
            raise CommandError(
                "Interrupted; everything is stopped. --keep goes on from here.", returncode=130
            ) from None


def interrupt(_signum: int, _frame: object) -> NoReturn:
    """Treat every signal to end as Ctrl-C, so that the worker and the site are stopped."""
    raise KeyboardInterrupt
