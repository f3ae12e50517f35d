"""Find out what is wrong, and how to mend it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import DEFAULT_DB_ALIAS

from django_mq.diagnosis.doctor.examination import examine
from django_mq.diagnosis.doctor.statements import printed
from django_mq.errors import ConfigurationError
from django_mq.management.arguments import argument, more_than_zero
from django_mq.management.command import MQCommand
from django_mq.management.tables import printable
from django_mq.seams.findings import Level

if TYPE_CHECKING:
    from django_mq.seams.findings import Finding


class Command(MQCommand):
    help = (
        "Examine settings, Redis, database, migrations, clock, leases and queues; say how to mend what is wrong."
    )
    exit_codes: ClassVar = {0: "all is well", 1: "there are problems, with --strict also for notices"}
    #: The command itself examines the settings.
    requires_system_checks = ()

    arguments: ClassVar = (
        argument(
            "--sql",
            nargs="?",
            const="",
            metavar="NAME",
            help="Print an SQL statement and its plan, and examine nothing; without NAME, list the statements.",
        ),
        argument("--strict", action="store_true", help="Notices count as problems."),
        argument(
            "--timeout",
            type=more_than_zero,
            default=5.0,
            metavar="SECONDS",
            help="Longest wait for the database's first answer; default: 5.",
        ),
    )
    json = "a JSON array, or the statement as a JSON object"

    def _alias(self, given: str | None) -> str:
        try:
            return super()._alias(given)
        except ConfigurationError:
            return DEFAULT_DB_ALIAS  # the findings name the error

    def run(self, alias: str, **options: Any) -> None:
        if options["sql"] is not None:
            found = printed(alias, options["sql"])
            plan = "\n".join(found.plan) or "The database makes no plan for it."
            self.answer(asdict(found), f"{found.heading}\n{found.text}\n\n{plan}")
            return
        findings = list(examine(alias, patience_seconds=options["timeout"]))
        objects = [{**asdict(finding), "level": finding.level.value} for finding in findings]
        self.answer(objects, "\n".join(map(self._lines, findings)))
        bad = {Level.PROBLEM, Level.NOTICE} if options["strict"] else {Level.PROBLEM}
        if any(finding.level in bad for finding in findings):
            raise SystemExit(1)

    def _lines(self, finding: Finding) -> str:
        styles = {
            Level.OK: self.style.SUCCESS,
            Level.NOTICE: self.style.WARNING,
            Level.PROBLEM: self.style.ERROR,
        }
        mark = styles[finding.level](f"{finding.level.value:8}")
        mend = f"\n{'':8} mend: {printable(finding.mend)}" if finding.mend else ""
        # The error of a driver may have several lines.
        sentence = " ".join(finding.sentence.split())
        return f"{mark} {printable(finding.about)}: {printable(sentence)}{mend}"
