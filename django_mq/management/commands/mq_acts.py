"""Show what operators did, and put back what a move or a redrive has sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.core.management.base import CommandError

from django_mq.acts import recorder, undo
from django_mq.acts.models import Act
from django_mq.formats import PLAIN, plural
from django_mq.management.arguments import WHY, UsageError, argument, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.confirmation import ask_reason
from django_mq.management.messages import read_ids
from django_mq.management.tables import printable, shortened, table

if TYPE_CHECKING:
    from uuid import UUID

HEADINGS = ("ID", "TIME", "BY", "ACTION", "ABOUT", "MESSAGES", "REASON", "COMMAND")
#: Columns in JSON; the time is text.
KEYS = (
    *("id", "user_name", "interface", "model", "name", "about", "sentence", "criterion", "answers", "command"),
    *("reason", "count", "operation_id", "undoes_id"),
)
#: The words for what an undo leaves.
LEFT = {
    "held": "held by a worker",
    "dead": "dead since",
    "gone": "no longer where the action left it",
    "refused": "not taken by the queue of before",
}


class Command(MQCommand):
    help = (
        "Show what operators did in the admin and by commands, the newest first. Or put back the messages of a "
        "move or a redrive, as far as they are still there and no worker has begun them."
    )
    exit_codes: ClassVar = {1: "refused, or not every message was put back"}
    arguments: ClassVar = (
        argument("--by", metavar="USER", help="Only of this user, as deploy@web-1."),
        argument("--message", metavar="MESSAGE_ID", help="Only what was done to this message."),
        argument("--limit", type=at_least_one, default=20, metavar="N", help="How many to show; default: 20."),
        argument("--undo", type=at_least_one, metavar="ID", help="Put back the messages of this act."),
        WHY,
    )
    dry_run = "with --undo, how many messages it would try"
    json = "a JSON array, or an object of what was done"

    def run(self, alias: str, **options: Any) -> None:
        if options["undo"]:
            self._undo(alias, options)
            return
        if options["dry_run"]:
            raise UsageError("--dry-run goes with --undo.")
        found = Act.objects.using(alias).order_by("-id")
        if options["by"]:
            found = found.filter(user_name=options["by"])
        if options["message"]:
            found = found.filter(messages__message_id=_id(options["message"])).distinct()
        rows = list(found[: options["limit"]])
        text = table(HEADINGS, map(_row, rows), right=(0, 5)) if rows else "There are no acts to show."
        self.answer([_object(row) for row in rows], text)

    def _undo(self, alias: str, options: dict[str, Any]) -> None:
        act = Act.objects.using(alias).filter(pk=options["undo"]).first()
        if act is None:
            raise CommandError(f"There is no act {options['undo']}; mq_acts shows them.")
        count = undo.remembered(act, using=alias)
        if options["dry_run"]:
            self.answer({"would_try": count}, f"{plural(count, 'message')} would be put back, if still there.")
            return
        reason = ask_reason(lambda _limit: count, options["why"])
        record = self.new_act("act", "undo", about=act, reason=reason)
        with recorder.recorded(record, using=alias):
            done = undo.undo(act, record, using=alias)
            left = ", ".join(
                f"{PLAIN.number(number)} {LEFT[reason]}" for reason, number in done.left.items() if number
            )
            record.sentence = f"{plural(done.back, 'message')} put back."
            if left:
                record.sentence += f" Left alone: {left}."
        self.answer({"back": done.back, "left": done.left}, record.sentence)
        if left:
            raise SystemExit(1)


def _id(text: str) -> UUID:
    [message_id] = read_ids([text])
    return message_id


def _object(row: Act) -> dict[str, Any]:
    return {key: getattr(row, key) for key in KEYS} | {"began_at": row.began_at.isoformat()}


def _row(row: Act) -> tuple[str, ...]:
    texts = (row.user_name, f"{row.model} {row.name}", row.about, PLAIN.number(row.count), row.reason, row.command)
    words = (printable(shortened(text, 60)) for text in texts)
    return (str(row.pk), PLAIN.time(row.began_at), *words)
