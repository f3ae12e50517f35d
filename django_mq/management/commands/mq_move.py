"""Move messages from one queue to another: those of a state, or by their ids, or all that match."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Q

from django_mq.delivery.operator import actions
from django_mq.delivery.operator.moves import ORDER, count_movable, move_all
from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.diagnosis.state.overview import COUNT_LIMIT
from django_mq.management.arguments import UsageError
from django_mq.management.messages import FILTERS, MessageCommand
from django_mq.management.tables import bounded, plural

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import Row

STATES = {state.name.lower(): state for state in ORDER}


class Command(MessageCommand):
    help = (
        "Move messages to the tail of another queue, in batches; their attempts start again. 'mq_move QUEUE "
        "TARGET' moves those of one state; with --to, messages by their ids, or all that match."
    )
    verb = "moved"
    states = actions.STATES["move"]
    left = "left", "left alone: held by a worker, there already, or without room"

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--to", metavar="QUEUE", help="Move messages named by ids or filters there.")
        words = "Which messages; without it the dead, with --to any that no worker holds."
        parser.add_argument("--state", choices=STATES, help=words)

    def add_ids(self, parser: ArgumentParser) -> None:
        words = "From this queue to that one; with --to, ids of messages."
        parser.add_argument("names", metavar="QUEUE TARGET|MESSAGE_ID", nargs="*", help=words)

    def run(self, alias: str, **options: Any) -> None:
        names, target = options.pop("names"), options["to"]
        if target is None:
            self._move_all(*_ends(names, options), alias, options)
            return
        options["ids"] = list(map(_id, names))
        check_names([target], using=alias)
        self.narrow(options["state"], ids=options["ids"])
        self.among = ~Q(queue__name=target)
        super().run(alias, **options)

    def act(self, rows: Sequence[Row], alias: str, options: dict[str, Any]) -> int:
        return actions.move(rows, options["to"], using=alias)

    def _move_all(self, source: str, target: str, alias: str, options: dict[str, Any]) -> None:
        name, limit = options["state"] or "dead", options["limit"]
        if options["dry_run"]:
            ceiling = COUNT_LIMIT if limit is None else min(limit, COUNT_LIMIT)
            count = count_movable(source, target, state=STATES[name], limit=ceiling, using=alias)
            text = f"{bounded(count, COUNT_LIMIT)} {name} messages would be moved."
            self.stdout.write(json.dumps({"would_move": count}) if options["json"] else text)
            return
        moved = move_all(source, target, state=STATES[name], limit=limit, using=alias)
        text = f"{plural(moved, 'message')} moved from {source!r} to {target!r}."
        self.stdout.write(json.dumps({"moved": moved}) if options["json"] else text)


def _ends(names: list[str], options: dict[str, Any]) -> tuple[str, str]:
    """Return the two queues of the form without --to."""
    if len(names) != 2:
        raise UsageError("Say from where to where, mq_move QUEUE TARGET; or with --to which messages; see --help.")
    if given := [f"--{option}" for option, *_ in FILTERS if options[option]]:
        raise UsageError(
            f"{given[0]} needs --to: mq_move --to {names[1]} --queue {names[0]} ... moves what matches."
        )
    source, target = names
    return source, target


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no message id; with --to, the queue to move from is named by --queue."
        ) from None
