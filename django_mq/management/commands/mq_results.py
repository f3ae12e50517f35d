"""List and forget results of Celery's tasks, and take over those of django-celery-results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import CommandError

from django_mq.formats import PLAIN, plural
from django_mq.management.arguments import UsageError, argument, at_least_one, more_than_zero
from django_mq.management.command import MQCommand
from django_mq.management.tables import table
from django_mq.results import results, shown
from django_mq.results.models import StoredResult

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How many results are listed by default.
MOST = 20
IMPORT = "import-celery-results"
ACTIONS = ("list", "forget", IMPORT)
HEADINGS = ("TASK ID", "TASK", "STATE", "FINISHED", "RESULT")


class Command(MQCommand):
    help = (
        "List the newest results of Celery's tasks, or those of the tasks that are named, or forget these. "
        "import-celery-results copies what django-celery-results has stored, as far as it has ended. It may run "
        "again: what is here already is left as it is."
    )
    arguments: ClassVar = (
        argument("action", nargs="?", choices=ACTIONS, default="list", help="default: list"),
        argument("names", metavar="TASK_ID", nargs="*", help="The ids of tasks."),
        argument("--limit", type=at_least_one, metavar="N", default=MOST, help="At most so many; default: 20."),
        argument(
            "--keep-days",
            type=more_than_zero,
            metavar="DAYS",
            help="With import-celery-results, how long to keep a result after its end; default: as "
            "Celery's setting result_expires says.",
        ),
    )
    dry_run = "what import-celery-results would do"
    json = "a JSON array of what is listed, or an object of what was done"

    def run(self, alias: str, **options: Any) -> None:
        action, names = options["action"], list(dict.fromkeys(options["names"]))
        if action == "forget" and not names:
            raise UsageError("forget takes the ids of tasks.")
        if action == IMPORT and names:
            raise UsageError(f"{IMPORT} takes no ids.")
        for name in ("dry_run", "keep_days"):
            if options[name] not in (None, False) and action != IMPORT:
                raise UsageError(f"--{name.replace('_', '-')} is for {IMPORT}.")
        if action == IMPORT:
            self._import(alias, options["keep_days"], dry_run=options["dry_run"])
        elif action == "forget":
            self._forget(alias, names)
        else:
            self._list(alias, names, options["limit"])

    def _list(self, alias: str, names: Sequence[str], limit: int) -> None:
        rows = StoredResult.objects.using(alias).defer(*shown.LONG).order_by("-pk")
        found = list(shown.with_message(rows.filter(task_id__in=names) if names else rows)[:limit])
        lines = [
            (
                row.task_id,
                shown.task_of(row) or "-",
                row.status,
                "-" if row.done_at is None else PLAIN.time(row.done_at),
                shown.line(row) if row.head else "-",
            )
            for row in found
        ]
        self.answer([_object(row) for row in found], table(HEADINGS, lines) if lines else "There are no results.")

    def _forget(self, alias: str, names: Sequence[str]) -> None:
        gone = [name for name in names if results.forget(name, using=alias)]
        self.note(alias, "storedresult", "forget", gone)
        self.answer({"forgotten": gone}, f"{plural(len(gone), 'result')} forgotten.")

    def _import(self, alias: str, keep_days: float | None, *, dry_run: bool) -> None:
        try:
            from django_mq.integrations.celery.celery_results import import_results  # noqa: PLC0415 - Celery is
        except ImportError as error:  # imported where it is used
            raise CommandError(f"Celery cannot be imported: {error}") from error

        done = import_results(alias, keep_days=keep_days, dry_run=dry_run)
        lines = []
        for name, each in done.items():
            verb = "would import" if dry_run else "imported"
            known = f"{PLAIN.number(each.known)} here already, {PLAIN.number(each.expired)} expired"
            lines.append(
                f"{name}: {PLAIN.number(each.imported)} {verb}, {known}, {PLAIN.number(each.left_in_all)} left"
            )
            lines += [f"Left {row}: {reason}" for row, reason in each.left.items()]
        self.answer({name: each.as_object() for name, each in done.items()}, "\n".join(lines))


def _object(row: Any) -> dict[str, Any]:
    return {
        "task_id": row.task_id,
        "task": shown.task_of(row) or None,
        "status": row.status,
        "queue": shown.queue_of(row) or None,
        "done_at": row.done_at and row.done_at.isoformat(),
        "expires_at": row.expires_at and row.expires_at.isoformat(),
        "result": shown.line(row) if row.head else None,
    }
