"""Snooze an alert of the overview, show what is snoozed, or end a snooze."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.core.management.base import CommandError

from django_mq.formats import PLAIN
from django_mq.management.arguments import UsageError, argument, at_least_one, more_than_zero
from django_mq.management.command import MQCommand
from django_mq.management.tables import table
from django_mq.models import SnoozedAlert

KEYS = ("id", "kind", "about", "reason", "until", "user_name")
NOTHING = "Nothing is snoozed."
#: The most hours: a month.
MOST_HOURS = 24 * 31


class Command(MQCommand):
    help = (
        "Let the overview of the admin not show an alert for a time, as in mq_snooze dead orders --why holidays. "
        "Without arguments, show what is snoozed. Probes, the doctor and metrics tell the alert as before."
    )
    exit_codes: ClassVar = {1: "refused, or there is no such snooze to end"}
    arguments: ClassVar = (
        argument("kind", metavar="KIND", nargs="?", help="The kind, as the JSON of the overview has it."),
        argument("about", metavar="ABOUT", nargs="?", default="", help="The queue, or what an extension names."),
        argument("--why", metavar="TEXT", help="The reason, at most 200 characters."),
        argument("--hours", type=more_than_zero, default=24.0, metavar="N", help="For how long; default: 24."),
        argument("--end", type=at_least_one, metavar="ID", help="End this snooze."),
    )
    json = "a JSON array, or an object of what was done"

    def run(self, alias: str, **options: Any) -> None:
        rows = SnoozedAlert.objects.using(alias)
        if options["end"]:
            if not rows.filter(pk=options["end"]).delete()[0]:
                raise CommandError(f"There is no snooze {options['end']}.")
            self.note(alias, "snoozedalert", "delete", [f"#{options['end']}"])
            self.answer({"ended": options["end"]}, f"Snooze {options['end']} has ended.")
        elif options["kind"]:
            if not options["why"]:
                raise UsageError("Give a reason with --why.")
            if options["hours"] > MOST_HOURS:
                raise UsageError(f"--hours must be at most {MOST_HOURS}, a month.")
            now = datetime.now(UTC)
            until = now + timedelta(hours=options["hours"])
            given = {"kind": options["kind"][:20], "about": options["about"][:255], "reason": options["why"][:200]}
            row = rows.create(**given, until=until, created_at=now)
            self.note(alias, "snoozedalert", "add", [row], reason=row.reason)
            self.answer({"snoozed": row.pk}, f"Snoozed until {PLAIN.time(until)}: {row}.")
        else:
            found = list(rows.filter(until__gt=datetime.now(UTC)).values(*KEYS))
            lines = [tuple(map(str, row.values())) for row in found]
            text = table([key.upper().replace("_", " ") for key in KEYS], lines) if lines else NOTHING
            self.answer(found, text)
