"""Show failed attempts in groups, and redrive the dead letters of a group in stages."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import CommandError

from django_mq.failures import staged
from django_mq.failures.deploys import last_deploy
from django_mq.formats import PLAIN
from django_mq.management.arguments import WHY, argument, at_least_one, more_than_zero, one_of
from django_mq.management.command import MQCommand
from django_mq.management.confirmation import ask_reason
from django_mq.management.tables import table
from django_mq.models import FailureGroup, StagedRedrive

if TYPE_CHECKING:
    from django_mq.models import Deploy

HEADINGS = ("ID", "FAILURES", "FIRST", "LAST", "NEW SINCE", "FAILURE", "PLACE")
#: Columns in JSON.
KEYS = (
    "id",
    "error",
    "error_path",
    "place",
    "text",
    "failures",
    "queues",
    "types",
    "workers",
    "tenants",
    "versions",
)


#: Columns of redrives.
REDRIVE_KEYS = (
    *("id", "group_id", "first", "per_minute", "status", "reason", "about"),
    *("sent", "succeeded", "failed", "removed", "stayed", "user_name"),
)


def _first(text: str) -> int:
    number = int(text)
    if not 0 <= number <= staged.MOST_FIRST:
        raise ArgumentTypeError(f"must be from 0 to {staged.MOST_FIRST}.")
    return number


class Command(MQCommand):
    help = (
        "Show the groups of failed attempts, the last seen first: attempts of one exception, at one place, whose "
        "texts differ in values only. Workers group new attempts every few seconds. With --redrive, the dead "
        "letters of a group return to their queues in stages: some first, and the rest when these have "
        "succeeded; the first failure stops it. Workers take the steps. mq_redrive --failure redrives all at once."
    )
    exit_codes: ClassVar = {
        1: "refused, or there is no such group, or the redrive does not run or has not stopped"
    }
    arguments: ClassVar = (
        argument("--new", action="store_true", help="Only groups first seen after the last deploy."),
        argument("--limit", type=at_least_one, default=20, metavar="N", help="How many to show; default: 20."),
        one_of(
            argument("--redrives", action="store_true", help="Show the redrives in stages, the newest first."),
            argument("--redrive", type=at_least_one, metavar="ID", help="Begin to redrive this group."),
            argument("--stop", type=at_least_one, metavar="REDRIVE", help="Stop this redrive."),
            argument(
                "--continue",
                dest="go_on",
                type=at_least_one,
                metavar="REDRIVE",
                help="Let this redrive go on, in spite of the failures until now.",
            ),
        ),
        argument("--first", type=_first, default=10, metavar="N", help="How many go first; default: 10, 0: none."),
        argument("--per-minute", type=more_than_zero, metavar="N", help="At most so many a minute."),
        WHY,
    )
    json = "a JSON array, or an object of what was done"

    def run(self, alias: str, **options: Any) -> None:
        if options["redrive"]:
            self._begin(alias, options)
        elif options["stop"] or options["go_on"]:
            self._steer(alias, options)
        elif options["redrives"]:
            self._show_redrives(alias, options["limit"])
        else:
            self._show(alias, options)

    def _begin(self, alias: str, options: dict[str, Any]) -> None:
        group = FailureGroup.objects.using(alias).filter(pk=options["redrive"]).first()
        if group is None:
            raise CommandError(f"There is no failure group {options['redrive']}; mq_failures shows all.")
        why = ask_reason(
            lambda limit: staged.count_dead_letters(group.pk, limit=limit, using=alias), options["why"]
        )
        how = {"first": options["first"], "per_minute": options["per_minute"]}
        redrive = staged.begin(group, **how, using=alias)
        text = f"Redrive {redrive.pk} has begun. A worker takes the first step within seconds."
        self.note(alias, "failuregroup", "redrive", [group], answers=how, reason=why, sentence=text)
        self.answer({"redrive": redrive.pk, "group": group.pk, **how}, text)

    def _steer(self, alias: str, options: dict[str, Any]) -> None:
        pk, act = (options["stop"], staged.stop) if options["stop"] else (options["go_on"], staged.go_on)
        if not act(pk, using=alias):
            raise CommandError(f"Redrive {pk} {'does not run' if options['stop'] else 'has not stopped'}.")
        key, words = ("stopped", "has stopped") if options["stop"] else ("continued", "goes on")
        self.note(alias, "stagedredrive", "stop" if options["stop"] else "go_on", [f"#{pk}"])
        self.answer({key: pk}, f"Redrive {pk} {words}.")

    def _show_redrives(self, alias: str, limit: int) -> None:
        rows = StagedRedrive.objects.using(alias).order_by("-id").values(*REDRIVE_KEYS)[:limit]
        lines = [tuple("" if value is None else str(value) for value in row.values()) for row in rows]
        headings = [key.upper().replace("_", " ") for key in REDRIVE_KEYS]
        self.answer(list(rows), table(headings, lines) if lines else "There are no redrives to show.")

    def _show(self, alias: str, options: dict[str, Any]) -> None:
        deploy = last_deploy(using=alias)
        found = FailureGroup.objects.using(alias).order_by("-last_at", "-id")
        if options["new"]:
            found = found.filter(first_at__gte=deploy.first_at) if deploy else found.none()
        rows = list(found[: options["limit"]])
        lines = [_row(row, deploy) for row in rows]
        text = table(HEADINGS, lines, right=(0, 1)) if rows else "There are no failures to show."
        self.answer([_object(row, deploy) for row in rows], text)


def _version(group: FailureGroup, deploy: Deploy | None) -> str | None:
    """Return the last deploy, if the group was first seen after it."""
    return deploy.version if deploy is not None and group.first_at >= deploy.first_at else None


def _object(group: FailureGroup, deploy: Deploy | None) -> dict[str, Any]:
    times = {"first_at": group.first_at.isoformat(), "last_at": group.last_at.isoformat()}
    return {key: getattr(group, key) for key in KEYS} | times | {"new_since": _version(group, deploy)}


def _row(group: FailureGroup, deploy: Deploy | None) -> tuple[str, ...]:
    times = (PLAIN.time(moment) for moment in (group.first_at, group.last_at))
    words = " ".join(str(group).split())
    return (str(group.pk), PLAIN.number(group.failures), *times, _version(group, deploy) or "", words, group.place)
