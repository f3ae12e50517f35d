"""A health check for containers and monitors."""

from __future__ import annotations

from typing import Any, ClassVar

from django_mq.diagnosis.state.health import Demands, Probe
from django_mq.management.arguments import ONLY_QUEUES, argument, finite, more_than_zero
from django_mq.management.command import MQCommand
from django_mq.management.tables import printable


class Command(MQCommand):
    help = (
        "Check whether the database answers and the queues are well. Dead letters are warnings, which do not "
        "change the exit code, unless --max-dead limits them. Imports no handlers and no tasks."
    )
    exit_codes: ClassVar = {0: "well", 1: "not, with a sentence for each alert on the standard output"}
    #: System checks import the URLs, and with them the whole project.
    requires_system_checks = ()

    arguments: ClassVar = (
        ONLY_QUEUES,
        argument("--max-age", type=finite, metavar="SECONDS", help="How long a ready message may have waited."),
        argument("--max-dead", type=int, metavar="N", help="How many dead letters a queue may have."),
        argument("--workers", action="store_true", help="Every queue must have a live worker."),
        argument(
            "--timeout",
            type=more_than_zero,
            default=5.0,
            metavar="SECONDS",
            help="Longest wait for the database; default: 5.",
        ),
    )

    def run(self, alias: str, **options: Any) -> None:
        demands = Demands(
            queues=options["queues"],
            oldest_seconds=options["max_age"],
            dead=options["max_dead"],
            workers=options["workers"],
        )
        health = Probe(demands).answer(using=alias, timeout_seconds=options["timeout"])
        value = {
            "well": health.well,
            "alerts": health.alerts,
            "warnings": health.warnings,
            "seconds": round(health.seconds, 3),
        }
        lines = [*health.alerts, *(f"Warning: {warning}" for warning in health.warnings)]
        self.answer(value, "\n".join(map(printable, lines)) or "All is well.")
        if not health.well:
            raise SystemExit(1)
