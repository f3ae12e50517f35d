"""What the commands share that do something to messages: which ones are meant, and what is said afterwards."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.db.models import Q

from django_mq.delivery.validation import read_time
from django_mq.diagnosis.messages.choice import Choice
from django_mq.diagnosis.messages.queue_names import check_names
from django_mq.diagnosis.state.overview import COUNT_LIMIT
from django_mq.engine.states import State
from django_mq.errors import MQError
from django_mq.management.arguments import UsageError, add_dry_run, add_json, at_least_one
from django_mq.management.command import MQCommand
from django_mq.management.confirmation import confirm
from django_mq.management.progress import watched
from django_mq.management.tables import bounded, plural

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Mapping, Sequence

    from django_mq.delivery.operator.actions import Row

#: Filters of the admin's list that a command has, too: option, name in the list's address, what it is.
FILTERS = (
    ("queue", "queue", "QUEUE", "Those in this queue."),
    ("type", "type", "TYPE", "Those of this type; of a Celery task, its name."),
    ("error", "error", "NAME", "Those of which an attempt has failed with this exception."),
    ("reason", "reason", "TEXT", "Those that are dead for this reason."),
    ("since", "since", "TIME", "Those published then or later."),
    ("until", "until", "TIME", "Those published before."),
    ("match", "q", "TEXT", "Those that carry an id or a header NAME:VALUE."),
)


@dataclass(slots=True)
class Tally:
    """How many messages were done, how many were left, and what ended it before all were tried."""

    done: int = 0
    left: int = 0
    error: MQError | None = None


def add_filters(parser: ArgumentParser) -> None:
    """Add an option for each filter."""
    for option, _, metavar, words in FILTERS:
        parser.add_argument(f"--{option}", metavar=metavar, help=words)


def read_filters(alias: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the filters given, by their names in the list's address. Raises UnknownQueue, InvalidMessage."""
    filters = {name: options[option] for option, name, _, _ in FILTERS if options[option]}
    if "queue" in filters:
        check_names([filters["queue"]], using=alias)
    for name in {"since", "until"} & filters.keys():
        filters[name] = read_time(filters[name], f"--{name}").isoformat()
    return filters


class MessageCommand(MQCommand):
    """A command on messages named by ids or filters; a subclass implements ``act``."""

    exit_codes: ClassVar = {1: "refused, or not every message could be done"}
    #: What is done to them, as in "3 messages removed", and the key in JSON.
    verb: str
    #: What filters look among; a message named by its id in another state is left.
    states: frozenset[State]
    #: What else filters ask of a message.
    among = Q()
    #: The key in JSON, and the words, for those that are left.
    left: tuple[str, str] = ("left", "left alone: in another state, so already, or changed meanwhile")
    #: Whether to ask before it is done to all that match.
    asks: bool = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        self.add_ids(parser)
        add_filters(parser)
        parser.add_argument("--limit", type=at_least_one, metavar="N", help="At most so many, the oldest first.")
        if self.asks:
            parser.add_argument("--yes", action="store_true", help="Do not ask, whatever matches.")
        add_dry_run(parser, what="how many would be tried, counted up to 10,000")
        add_json(parser)

    def add_ids(self, parser: ArgumentParser) -> None:
        """Add the argument for messages named one by one."""
        parser.add_argument("ids", metavar="MESSAGE_ID", nargs="*", type=UUID, help="These messages; or filters:")

    def narrow(self, state: str | None, *, ids: Sequence[UUID]) -> None:
        """Have filters look among the messages of one state only. Raises UsageError beside ids."""
        if state is None:
            return
        if ids:
            raise UsageError("--state goes with filters: a message named by its id is meant in whatever state.")
        self.states = frozenset({State[state.upper()]})

    def run(self, alias: str, **options: Any) -> None:
        choice = self._choice(alias, options)
        missing = [str(one) for one in choice.missing(using=alias)]
        if options["dry_run"]:
            tally = self._would(choice, alias)
            verb = f"would be {self.verb}"
        else:
            self._ask(choice, alias, options)
            tally = self._do(choice, alias, options)
            verb = self.verb
        self._say(tally, verb, missing=missing, as_json=options["json"])
        if tally.error is not None:
            raise tally.error
        if missing or tally.left:
            raise SystemExit(1)

    def act(self, rows: Sequence[Row], alias: str, options: dict[str, Any]) -> int:
        """Do it to these and return how many were changed. Raises MQError."""
        raise NotImplementedError

    def _choice(self, alias: str, options: dict[str, Any]) -> Choice:
        filters = read_filters(alias, options)
        if not filters and not options["ids"]:
            raise UsageError("Name messages by their ids, or say by filters which are meant; see --help.")
        return Choice(options["ids"], filters, options["limit"], self.among)

    def _would(self, choice: Choice, alias: str) -> Tally:
        counts = choice.count(self.states, limit=COUNT_LIMIT, using=alias)
        fit = sum(count for state, count in counts.items() if State(state) in self.states)
        return Tally(fit, counts.total() - fit)

    def _ask(self, choice: Choice, alias: str, options: dict[str, Any]) -> None:
        if not self.asks or options["yes"] or choice.ids:
            return
        number = bounded(self._would(choice, alias).done, COUNT_LIMIT)
        confirm(f"{number} messages of database {alias!r} to be {self.verb}?", otherwise="Nothing was done.")

    def _do(self, choice: Choice, alias: str, options: dict[str, Any]) -> Tally:
        tally = Tally()
        for rows in watched(choice.batches(self.states, using=alias), unit="batches"):
            fit = [row for row in rows if State(row.state) in self.states]
            try:
                done = self.act(fit, alias, options) if fit else 0
            except MQError as error:
                if not tally.done:
                    raise
                # What was done is done, and has to be said.
                tally.error = error
                break
            tally.done += done
            tally.left += len(rows) - done
        return tally

    def _say(self, tally: Tally, verb: str, *, missing: list[str], as_json: bool) -> None:
        done, left = tally.done, tally.left
        key, words = self.left
        if as_json:
            self.stdout.write(json.dumps({verb.replace(" ", "_"): done, key: left, "missing": missing}))
            return
        self.stdout.write(f"{plural(done, 'message')} {verb}.")
        if left:
            self.stderr.write(f"{plural(left, 'message')} {words}.")
        for one in missing:
            self.stderr.write(f"There is no message {one}.")
