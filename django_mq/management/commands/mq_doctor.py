"""Say what is wrong, and how to mend it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import DEFAULT_DB_ALIAS

from django_mq.diagnosis.doctor.examination import examine
from django_mq.diagnosis.doctor.findings import Level
from django_mq.errors import ConfigurationError
from django_mq.management.arguments import add_json, more_than_zero
from django_mq.management.command import MQCommand
from django_mq.management.tables import printable

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from django_mq.diagnosis.doctor.findings import Finding


class Command(MQCommand):
    help = (
        "Examine settings, Redis, database, migrations, clock, leases and queues; say how to mend what is wrong."
    )
    exit_codes: ClassVar = {0: "all is well", 1: "there are problems, with --strict also for notices"}
    #: Wrong settings are among what it is asked about.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add_json(parser, what="a JSON array")
        parser.add_argument("--strict", action="store_true", help="Notices count as problems.")
        parser.add_argument(
            "--timeout",
            type=more_than_zero,
            default=5.0,
            metavar="SECONDS",
            help="Longest wait for the database's first answer; 5.",
        )

    def _alias(self, given: str | None) -> str:
        try:
            return super()._alias(given)
        except ConfigurationError:
            return DEFAULT_DB_ALIAS  # the findings will say what is wrong

    def run(self, alias: str, **options: Any) -> None:
        findings = list(examine(alias, patience_seconds=options["timeout"]))
        if options["json"]:
            self.stdout.write(json.dumps([_object(finding) for finding in findings], indent=2))
        else:
            for finding in findings:
                self._say(finding)
        bad = {Level.PROBLEM, Level.NOTICE} if options["strict"] else {Level.PROBLEM}
        if any(finding.level in bad for finding in findings):
            raise SystemExit(1)

    def _say(self, finding: Finding) -> None:
        styles = {
            Level.OK: self.style.SUCCESS,
            Level.NOTICE: self.style.WARNING,
            Level.PROBLEM: self.style.ERROR,
        }
        mark = styles[finding.level](f"{finding.level.value:8}")
        self.stdout.write(f"{mark} {printable(finding.about)}: {printable(finding.sentence)}")
        if finding.mend:
            self.stdout.write(f"{'':8} mend: {printable(finding.mend)}")


def _object(finding: Finding) -> dict[str, str]:
    return {
        "level": finding.level.value,
        "about": finding.about,
        "sentence": finding.sentence,
        "mend": finding.mend,
    }
