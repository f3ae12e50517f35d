"""Show failed attempts in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django_mq.failures.deploys import last_deploy
from django_mq.management.arguments import argument, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.tables import table
from django_mq.models import FailureGroup

if TYPE_CHECKING:
    from django_mq.models import Deploy

HEADINGS = ("ID", "FAILURES", "FIRST", "LAST", "NEW SINCE", "FAILURE", "PLACE")
#: Columns in JSON.
KEYS = ("id", "error", "error_path", "place", "text", "failures", "queues", "types", "workers")


class Command(MQCommand):
    help = (
        "Show the groups of failed attempts, the last seen first: attempts of one exception, at one place, whose "
        "texts differ in values only. Workers group new attempts every few seconds. mq_redrive --failure ID "
        "redrives the dead letters of a group."
    )
    arguments: ClassVar = (
        argument("--new", action="store_true", help="Only those first seen after the last deploy."),
        argument("--limit", type=at_least_one, default=20, metavar="N", help="How many to show; default: 20."),
    )
    json = "a JSON array"

    def run(self, alias: str, **options: Any) -> None:
        deploy = last_deploy(using=alias)
        found = FailureGroup.objects.using(alias).order_by("-last_at", "-id")
        if options["new"]:
            found = found.filter(first_at__gte=deploy.first_at) if deploy else found.none()
        rows = list(found[: options["limit"]])
        text = (
            table(HEADINGS, [_row(row, deploy) for row in rows], right=(0, 1))
            if rows
            else "There are no failures to show."
        )
        self.answer([_object(row, deploy) for row in rows], text)


def _version(group: FailureGroup, deploy: Deploy | None) -> str | None:
    """Return the last deploy, if the group was first seen after it."""
    return deploy.version if deploy is not None and group.first_at >= deploy.first_at else None


def _object(group: FailureGroup, deploy: Deploy | None) -> dict[str, Any]:
    times = {"first_at": group.first_at.isoformat(), "last_at": group.last_at.isoformat()}
    return {key: getattr(group, key) for key in KEYS} | times | {"new_since": _version(group, deploy)}


def _row(group: FailureGroup, deploy: Deploy | None) -> tuple[str, ...]:
    times = (f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (group.first_at, group.last_at))
    words = " ".join(str(group).split())
    return (str(group.pk), f"{group.failures:,}", *times, _version(group, deploy) or "", words, group.place)
