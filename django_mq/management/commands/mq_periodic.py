"""List and steer periodic messages, and take over those of celery beat."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import CommandError

from django_mq.formats import PLAIN
from django_mq.management.arguments import UsageError, argument
from django_mq.management.command import MQCommand
from django_mq.management.tables import table
from django_mq.periodic import beat, editor
from django_mq.periodic.declared import CODE, follow, source_of
from django_mq.periodic.decorator import declarations
from django_mq.periodic.models import PeriodicMessage, with_last_run
from django_mq.periodic.publisher import check_target
from django_mq.periodic.values import USUAL, fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADINGS = ("NAME", "WHEN", "PUBLISHES", "NEXT TICK", "LAST RUN", "OUTCOME", "")
#: What is done with the rows that are named.
STEERED = ("create", "edit", "pause", "resume", "run", "delete")
#: The fields whose values are texts; those of the others are JSON.
TEXTS = {name for name, value in USUAL.items() if isinstance(value, str)} | {"start_at", "end_at"}
ACTIONS = ("list", *STEERED, "declare", "import-celery-beat")


class Command(MQCommand):
    help = (
        "List periodic messages, or create, change or steer those that are named. declare makes the declarations "
        "of this code the newest, as after a rollback to an earlier release. import-celery-beat makes a row of "
        "each entry of django-celery-beat, and names those that are not possible."
    )
    exit_codes: ClassVar = {1: "refused, or an entry of django-celery-beat was not possible"}
    arguments: ClassVar = (
        argument("action", nargs="?", choices=ACTIONS, default="list", help="default: list"),
        argument("names", metavar="NAME", nargs="*", help="Which ones to create, edit, pause, ..."),
        argument(
            "--set",
            metavar="FIELD=VALUE",
            action="append",
            default=[],
            dest="values",
            help="With create and edit, as often as needed, as --set cron='0 3 * * 1' --set queue=reports.",
        ),
        argument("--reason", default="", help="Why to pause, shown in the admin and here."),
    )
    dry_run = "what import-celery-beat would do"
    json = "a JSON array of what is listed, or an object of what was done"

    def run(self, alias: str, **options: Any) -> None:
        action, names = options["action"], list(dict.fromkeys(options["names"]))
        if bool(names) != (action in STEERED):
            raise UsageError(f"{action} takes {'the names of periodic messages' if not names else 'no names'}.")
        if bool(options["values"]) != (action in {"create", "edit"}):
            raise UsageError(f"{action} takes {'no --set' if options['values'] else '--set FIELD=VALUE'}.")
        if options["dry_run"] and action != "import-celery-beat":
            raise UsageError("--dry-run is for import-celery-beat.")
        if action == "list":
            self._list(alias)
        elif action == "declare":
            self._declare(alias)
        elif action == "import-celery-beat":
            self._import(alias, dry_run=options["dry_run"])
        else:
            self._steer(alias, action, names, options)

    def _declare(self, alias: str) -> None:
        found = declarations()
        changed = follow(alias, source_of(CODE), found.right, wrong=found.wrong, anyway=True)
        left = [f"Left as it was: {name}. {why}" for name, why in found.wrong.items()]
        self.answer({"changed": changed, "wrong": found.wrong}, "\n".join([f"Changed: {changed}.", *left]))

    def _list(self, alias: str) -> None:
        rows = list(with_last_run(PeriodicMessage.objects.using(alias)).order_by("name"))
        text = table(HEADINGS, map(_row, rows)) if rows else "There are no periodic messages."
        self.answer([_object(row) for row in rows], text)

    def _steer(self, alias: str, action: str, names: Sequence[str], options: Mapping[str, Any]) -> None:
        values = dict(map(_value, options["values"]))
        rows = {row.name: row for row in PeriodicMessage.objects.using(alias).filter(name__in=names)}
        if action == "create":
            if rows:
                raise CommandError(f"There is a periodic message {min(rows)!r}; mq_periodic edit changes it.")
            rows = {name: PeriodicMessage(name=name) for name in names}
        if missing := [name for name in names if name not in rows]:
            raise CommandError(f"There is no periodic message {missing[0]!r}; mq_periodic lists them.")
        done = {}
        for name in names:
            row = rows[name]
            if action in {"create", "edit"}:
                for field, value in values.items():
                    setattr(row, field, value)
                row.check_values()
                check_target(row, using=alias)
                editor.save(row, using=alias)
                done[name] = row.sentence
            else:
                done[name] = _do(row, action, options["reason"])
        name_of = {"create": "add", "edit": "change"}.get(action, action)
        self.note(alias, "periodicmessage", name_of, names, reason=options["reason"])
        self.answer({action: done}, "\n".join(f"{name}: {words}" for name, words in done.items()))

    def _import(self, alias: str, *, dry_run: bool) -> None:
        made, left = [], {}
        known = set(PeriodicMessage.objects.using(alias).values_list("name", flat=True))
        for entry in beat.imported(alias):
            if entry.declaration is None:
                left[entry.name] = entry.problem
            elif entry.name in known:
                left[entry.name] = "There is a periodic message of this name."
            else:
                made.append(entry.name)
                if not dry_run:
                    values = fields_of(entry.declaration.values)
                    row = PeriodicMessage(name=entry.name, is_paused=entry.is_paused, **values)
                    editor.save(row, using=alias)
        verb = "Would import" if dry_run else "Imported"
        self.answer({"imported": made, "left": left}, f"{verb}: {', '.join(made) or 'none'}.")
        if left:
            if not self.as_json:
                self.stderr.write("\n".join(f"Left {name}: {reason}" for name, reason in left.items()))
            raise SystemExit(1)


def _value(text: str) -> tuple[str, Any]:
    """Return the field and the value of a ``--set``. Raises UsageError."""
    name, found, value = text.partition("=")
    if not found or name not in USUAL:
        raise UsageError(f"--set {text!r}: give FIELD=VALUE, with one of the fields {', '.join(USUAL)}.")
    try:
        given = value if name in TEXTS else json.loads(value)
        [(_, plain)] = fields_of({name: given or None if name in {"start_at", "end_at"} else given}).items()
    except ValueError as error:
        raise UsageError(f"--set {text!r}: {error}.") from error
    return name, plain


def _do(row: PeriodicMessage, action: str, reason: str) -> str:
    if action == "pause":
        editor.pause(row, reason)
        return "paused"
    if action == "resume":
        editor.resume(row)
        return "resumed"
    if action == "delete":
        editor.delete(row)
        return "deleted"
    id_ = editor.run_now(row)
    return "discarded by a limit of the queue, or by a unique key" if id_ is None else f"published as {id_}"


def _object(row: Any) -> dict[str, Any]:
    return {
        "name": row.name,
        "when": row.sentence,
        **row.values,
        "paused": row.is_paused,
        "reason": row.paused_reason,
        "changed": row.changes,
        "next": [tick.isoformat() for tick in editor.next_ticks(row)],
        "last_run": row.last_due_at
        and {"due_at": row.last_due_at.isoformat(), "outcome": row.last_outcome or "pending"},
    }


def _row(row: Any) -> tuple[str, ...]:
    ticks = editor.next_ticks(row, 1)
    remarks = []
    if row.is_paused:
        remarks.append(f"paused: {row.paused_reason}" if row.paused_reason else "paused")
    if row.changes:
        remarks.append(f"changed: {', '.join(row.changes)}")
    return (
        row.name,
        row.sentence,
        row.target or row.queue,
        PLAIN.time(ticks[0]) if ticks else "",
        PLAIN.time(row.last_due_at) if row.last_due_at else "",
        (row.last_outcome or "pending") if row.last_due_at else "",
        "; ".join(remarks),
    )
