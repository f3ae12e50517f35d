"""Plan where dead, expired and replaced messages go: what all stores do alike."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from django_mq.engine.decisions.dead_letters import Dying, delays_retries, departure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set
    from datetime import datetime

    from django_mq.engine.decisions.dead_letters import Departure
    from django_mq.engine.decisions.routing import Exchange
    from django_mq.engine.message import Message
    from django_mq.stores.records import QueueRecord

#: The header that keeps what was not a JSON object in the place of the headers.
DAMAGED = "x-damaged-headers"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message at its end in a queue, without its body. Headers and properties are the stored text."""

    id: int
    message_id: Any
    queue: str
    headers: str
    properties: str | None
    attempts: int
    cause: str
    at: datetime

    @property
    def dying(self) -> Dying:
        headers = _object(self.headers)
        return Dying(
            queue=self.queue,
            headers={DAMAGED: self.headers} if headers is None else headers,
            properties=_object(self.properties or "{}") or {},
            attempts=self.attempts,
            cause=self.cause,
            at=self.at,
        )


class Copy(NamedTuple):
    """A copy to write: the row that it is of, and what differs."""

    id: int
    message_id: Any
    headers: str
    properties: str
    #: Why it is a dead letter in its new queue; blank if it is none.
    cause: str


@dataclass(slots=True)
class Plan:
    """What becomes of some messages that die for one reason."""

    #: The copies that each queue gets, by arrival. A queue gets one copy of a message id.
    copies: defaultdict[str, list[Copy]] = field(default_factory=lambda: defaultdict(list))
    #: The rows that stay as dead if no queue takes them.
    kept: set[int] = field(default_factory=set)
    #: The rows of which the history says that they have expired, not that they are dead letters.
    expiring: set[int] = field(default_factory=set)
    _going: set[tuple[str, Any]] = field(default_factory=set)

    def add(self, letter: DeadLetter, leaving: Departure, waiting: Set[str]) -> None:
        """Note a departure; in these of the queues the message waits for its retry, and is no dead letter."""
        headers = json.dumps(leaving.headers)
        for name in leaving.queues:
            if (name, letter.message_id) not in self._going:
                self._going.add((name, letter.message_id))
                properties = json.dumps(leaving.properties[name])
                cause = "" if name in leaving.returns or name in waiting else letter.cause
                self.copies[name].append(Copy(letter.id, letter.message_id, headers, properties, cause))
        if leaving.is_kept:
            self.kept.add(letter.id)
        if leaving.is_expiry:
            self.expiring.add(letter.id)


class Sent(NamedTuple):
    """The rows that have left their queues, and those that stay there as dead."""

    left: set[int]
    kept: set[int]


def planned(
    queue_named: Callable[[str], QueueRecord | None],
    exchange_named: Callable[[str], Exchange | None],
    dead_letters: Iterable[DeadLetter],
    reason: str,
    message: Callable[[DeadLetter], Message],
    *,
    is_last: bool = False,
) -> Plan:
    """Decide about messages, given by arrival. ``is_last`` says that their queue ends, and cannot get them again.

    ``message`` returns what a binding's selector asks.
    """
    plan = Plan()
    queue, exchange = cache(queue_named), cache(exchange_named)
    for letter in dead_letters:
        options = queue(letter.queue)
        if options is not None and is_last:
            options = replace(options, max_dead_letter_cycles=None)
        if options is not None:
            leaving = departure(options, reason, letter.dying, exchange, partial(message, letter))
            if leaving is not None:
                targets = {name: target for name in leaving.queues if (target := queue(name)) is not None}
                waiting = {
                    name
                    for name, target in targets.items()
                    if delays_retries(name, target, letter.queue, exchange)
                }
                plan.add(letter, leaving, waiting)
    return plan


def _object(text: str) -> Mapping[str, Any] | None:
    """Return the object in a stored text of JSON; None if it is none, or cannot be written again."""
    try:
        found = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None  # a row that was not written by a publisher
    return found if isinstance(found, dict) else None


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number
