"""Move messages to another queue: those of a state, or by their ids, or all that match."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.db.models import Q

from django_mq.acts import recorder
from django_mq.acts.command_lines import OPTIONS
from django_mq.delivery.operator import actions
from django_mq.delivery.operator.moves import count_movable, move_all
from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.engine.states import State
from django_mq.formats import COUNT_LIMIT, PLAIN, plural
from django_mq.management.arguments import UsageError, argument
from django_mq.management.confirmation import ask_reason
from django_mq.management.messages import MessageCommand, read_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.stores.records import Moved


class Command(MessageCommand):
    help = (
        "Move messages to the tail of another queue, in batches; their attempts start again. 'mq_move QUEUE "
        "TARGET' moves those of one state, the dead ones without --state; with --to, messages by their ids, or "
        "all that match."
    )
    action, verb = "move", "moved"
    left = "left", "left alone: held by a worker, there already, or without room"
    narrows = recalls = True
    names: ClassVar = (
        argument(
            "names",
            metavar="QUEUE TARGET|MESSAGE_ID",
            nargs="*",
            help="From this queue to the other; with --to, ids of messages.",
        ),
    )
    arguments: ClassVar = (
        argument("--to", metavar="QUEUE", help="Move messages named by ids or filters to this queue."),
    )

    def run(self, alias: str, **options: Any) -> None:
        names, target = options.pop("names"), options["to"]
        if target is None:
            self._move_all(*_ends(names, options), alias, options)
            return
        options["ids"] = read_ids(names)
        check_names([target], using=alias)
        self.among = ~Q(queue__name=target)
        super().run(alias, **options)

    def change(self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]) -> list[Moved]:
        return actions.move(rows, options["to"], using=alias)

    def _move_all(self, source: str, target: str, alias: str, options: dict[str, Any]) -> None:
        name, limit = options["state"] or "dead", options["limit"]
        state = State[name.upper()]

        def count_up_to(number: int) -> int:
            least = number if limit is None else min(limit, number)
            return count_movable(source, target, state=state, limit=least, using=alias)

        if options["dry_run"]:
            count = count_up_to(COUNT_LIMIT)
            text = f"{name.capitalize()} messages that would be moved: {PLAIN.bounded(count)}."
            self.answer({"would_move": count}, text)
            return
        reason = ask_reason(count_up_to, options["why"])
        given = {"criterion": {"filters": {"queue": source, "state": str(state.value)}}, "answers": {"to": target}}
        act = self.new_act("message", "move", reason=reason, **given)
        each = partial(recorder.perform_on, act, using=alias)
        moved = move_all(source, target, state=state, limit=limit, using=alias, each=each)
        sentence = f"{plural(moved, 'message')} moved from {source!r} to {target!r}."
        recorder.told(act, sentence, using=alias)
        self.answer({"moved": moved}, sentence)


def _ends(names: list[str], options: dict[str, Any]) -> tuple[str, str]:
    """Return the two queues of the form without --to."""
    if len(names) != 2:
        raise UsageError("Say from where to where, mq_move QUEUE TARGET; or with --to which messages; see --help.")
    if given := [f"--{option}" for option in OPTIONS.values() if options[option]]:
        raise UsageError(
            f"{given[0]} needs --to: mq_move --to {names[1]} --queue {names[0]} ... moves what matches."
        )
    source, target = names
    return source, target
