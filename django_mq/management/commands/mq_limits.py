"""Show which keys wait, and show and change what single keys of limits are allowed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.management import CommandError
from django.db import transaction

from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.diagnosis.state.waiting_keys import waiting_keys
from django_mq.engine.decisions.keyed_limits import told_apart
from django_mq.formats import PLAIN, plural
from django_mq.limits.declared import problem_of
from django_mq.management.arguments import argument
from django_mq.management.command import MQCommand
from django_mq.management.tables import printable
from django_mq.models import LimitException

if TYPE_CHECKING:
    from django_mq.diagnosis.state.waiting_keys import WaitingKey


#: What an exception says.
FIELDS = ("amount", "seconds", "burst", "at_once")


class Command(MQCommand):
    help = (
        "Show the keys over their limits, and what operators allow single keys, in one queue or all. A key that"
        " waits is shown with the number of its parked messages, since when, and until when. With --allow, give a"
        " key another rate,"
        " or another number of messages that run at once; with --forget, let the limit of the code hold again."
    )
    arguments: ClassVar = (
        argument("queue", metavar="QUEUE", nargs="?", help="Only this queue."),
        argument("--allow", metavar=("LIMIT", "KEY"), nargs=2, help="Allow a key of a limit something else."),
        argument("--forget", metavar=("LIMIT", "KEY"), nargs=2, help="Forget what a key is allowed."),
        argument("--amount", type=float, help="So many messages begin in --seconds."),
        argument("--seconds", type=float, help="See --amount."),
        argument("--burst", type=float, help="So many messages begin at once after a pause."),
        argument("--at-once", type=int, help="So many messages run at once."),
    )

    def run(self, alias: str, **options: Any) -> None:
        known = LimitException.objects.using(alias)
        if options["queue"]:
            check_names([options["queue"]], using=alias)
            known = known.filter(queue_name=options["queue"])
        says_what = any(options[name] is not None for name in FIELDS)
        if (options["forget"] and options["allow"]) or (says_what and not options["allow"]):
            raise CommandError("Give --amount, --seconds, --burst and --at-once with --allow, without --forget.")
        if given := options["allow"] or options["forget"]:
            if not options["queue"]:
                raise CommandError("Name the queue of the limit.")
            place = {"queue_name": options["queue"], "limit_name": given[0], "limited_key": told_apart(given[1])}
            row = LimitException(**place, **{name: options[name] for name in FIELDS})
            if options["allow"]:
                _check(row)
            elif not known.filter(**place).exists():
                raise CommandError(f"{row} has no exception; mq_limits lists them.")
            with transaction.atomic(using=alias):
                known.filter(**place).delete()
                if options["allow"]:
                    row.save(using=alias)
            if options["allow"] and (problem := problem_of(row)) is not None:
                self.stderr.write(problem)
            self.note(alias, "limitexception", "add" if options["allow"] else "delete", [row])
        rows = list(known.order_by("queue_name", "limit_name", "limited_key"))
        answer = [
            {"queue": row.queue_name, "limit": row.limit_name, "key": row.limited_key}
            | {name: getattr(row, name) for name in FIELDS}
            for row in rows
        ]
        waiting = waiting_keys(options["queue"], using=alias)
        lines = [*map(_line, rows), *map(_waiting_line, waiting)]
        told = {"limits": answer, "waiting": [_object(each) for each in waiting]}
        self.answer(told, "\n".join(map(printable, lines)) or "No key has an exception, and none waits.")


def _check(row: LimitException) -> None:
    """Raise CommandError for what cannot be."""
    try:
        row.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error


def _object(waiting: WaitingKey) -> dict[str, Any]:
    times = {"since": waiting.since, "next_at": waiting.next_at}
    return asdict(waiting) | {name: time and time.isoformat() for name, time in times.items()}


def _waiting_line(waiting: WaitingKey) -> str:
    since = f" since {PLAIN.time(waiting.since)}" if waiting.since else ""
    then = f"at {PLAIN.time(waiting.next_at)}" if waiting.next_at else "when one that runs has ended"
    place = f"{waiting.queue} {waiting.limit} {waiting.key}".rstrip()
    return f"{place}: {plural(waiting.parked, 'message')} parked{since}; the next begins {then}"


def _line(row: LimitException) -> str:
    said = []
    if row.amount is not None:
        burst = "" if row.burst is None else f", {PLAIN.digits(row.burst)} at once after a pause"
        said.append(f"{PLAIN.digits(row.amount)} in {PLAIN.precise(row.seconds)}{burst}")
    if row.at_once is not None:
        said.append(f"{row.at_once} run at once")
    return f"{row}: {'; '.join(said)}"
