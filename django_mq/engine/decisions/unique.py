"""Unique messages: of the messages with one key, what becomes of the second while the first one has the key.

The first publisher says how long its message has the key. The second one says what happens to its own message.
Duplicate ids (``duplicates``) are this rule with a window of time that the queue says, and an error for the second
message. Last values (``last_value``) are this rule, too: a later value replaces an earlier one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django_mq.engine.states import CLAIMED, State, is_dead_letter
from django_mq.errors import DuplicateMessage, InvalidMessage, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

#: How long a message has its key, where a key counts, what happens to the second message, and what it replaces.
UNTIL: Final = ("begins", "finished", "window")
WITHIN: Final = ("queue", "type")
SECOND: Final = ("raise", "drop", "replace")
REPLACEABLE: Final = ("body", "time", "priority")
#: The listening by which the run of a message is kept that is gone when it begins: until the end it has the key.
RUNS: Final = "unique"
#: The longest time of a rule in seconds: a year.
LONGEST_SECONDS: Final = 366 * 86_400.0
#: How long a publisher waits for another transaction that has published with the same key.
WAIT_SECONDS: Final = 5.0
#: Databases count milliseconds; none at all would mean for ever.
LEAST_WAIT_SECONDS: Final = 0.001


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Unique:
    """How a message is unique: the argument ``unique`` of ``publish``. Do not change it.

    It is not frozen, because a frozen one takes several times as long to make.
    """

    #: The key; without one, it is made of the arguments: the whole body, or the named fields of it.
    key: str | None = None
    arguments: tuple[str, ...] | None = None
    #: "begins": until a worker takes the message. "finished": until it is settled for good, its retries included.
    #: "window": for ``seconds``.
    until: str = "finished"
    seconds: float | None = None
    #: Whether the key counts among the messages of its queue, or of its type.
    within: str = "queue"
    #: What happens to the second message: "raise", "drop", or "replace", which changes the first one.
    second: str = "raise"
    replaces: tuple[str, ...] = ("body",)
    #: Each message moves the first one to so many seconds from now, but not further than the bound after the first
    #: publish.
    debounce_seconds: float | None = None
    at_most_seconds: float | None = None
    #: How long to wait for a transaction that is open and has the key.
    wait_seconds: float = WAIT_SECONDS

    def problems(self) -> Iterator[str]:
        """Yield one sentence for each value that cannot be."""
        if self.until not in UNTIL:
            yield _unknown("until", self.until, UNTIL)
        if self.within not in WITHIN:
            yield _unknown("within", self.within, WITHIN)
        if self.second not in SECOND:
            yield _unknown("second", self.second, SECOND)
        if self.key is not None and self.arguments is not None:
            yield "key and arguments are given; give one of them."
        if self.key is not None and (not isinstance(self.key, str) or not self.key):
            yield f"key is {shown(self.key)}; give a text that is not empty, or leave it out."
        if self.arguments is not None and not _are_names(self.arguments):
            yield f"arguments is {shown(self.arguments)}; give a tuple of names, or leave it out for all."
        if not _are_names(self.replaces) or not set(self.replaces) <= set(REPLACEABLE):
            yield f"replaces is {shown(self.replaces)}; give some of {', '.join(REPLACEABLE)}."
        yield from self._problems_of_times()

    def _problems_of_times(self) -> Iterator[str]:
        for name in ("seconds", "debounce_seconds", "at_most_seconds"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 < value <= LONGEST_SECONDS):
                yield f"{name} is {shown(value)}; give seconds, more than 0 and at most a year."
        if not (_is_number(self.wait_seconds) and LEAST_WAIT_SECONDS <= self.wait_seconds <= 3600):
            yield f"wait_seconds is {shown(self.wait_seconds)}; give {LEAST_WAIT_SECONDS} seconds to an hour."
        if (self.until == "window") != (self.seconds is not None):
            yield "seconds and until='window' belong together; give both or neither."
        if (self.debounce_seconds is None) != (self.at_most_seconds is None):
            yield "debounce_seconds and at_most_seconds belong together; give both or neither."
        elif self.debounce_seconds is not None:
            yield from self._problems_of_debounce()

    def _problems_of_debounce(self) -> Iterator[str]:
        first: Any = self.debounce_seconds
        most: Any = self.at_most_seconds
        if self.until != "begins" or self.second != "replace":
            yield "debounce_seconds needs until='begins' and second='replace'."
        if _is_number(first) and _is_number(most) and first > most:
            yield f"debounce_seconds is {first}, more than at_most_seconds, {most}."


def _unknown(name: str, given: object, allowed: tuple[str, ...]) -> str:
    return f"{name} is {shown(given)}; give one of {', '.join(allowed)}."


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_names(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(each, str) and each for each in value)


def debounce(seconds: float, *, at_most_seconds: float, **rule: Any) -> Unique:
    """Return the rule that delivers the last of several messages, when none has come for so many seconds."""
    return Unique(
        until="begins",
        second="replace",
        debounce_seconds=seconds,
        at_most_seconds=at_most_seconds,
        **rule,
    )


class Standing(Enum):
    """What has become of the message that has a key."""

    WAITING = auto()
    BEGUN = auto()
    #: It was settled, removed, or is a dead letter, or it has expired and waits for its removal.
    GONE = auto()


def standing_of(state: State | int, dead_reason: str, *, has_run: bool, has_expired: bool = False) -> Standing:
    """Return how a live message stands. One that waits for its next attempt has begun."""
    if is_dead_letter(int(state), dead_reason) or (has_expired and state != CLAIMED):
        return Standing.GONE
    return Standing.BEGUN if state == CLAIMED or has_run else Standing.WAITING


class First(NamedTuple):
    """The message that has a key, and by which rule. Times are seconds since 1970."""

    message_id: UUID
    #: What its publisher knows it by: the message's id, or the id of a Celery task.
    owner: str
    until: str
    first_at: float
    ends_at: float | None


@dataclass(slots=True, eq=False)
class UniqueClaim:
    """A message's claim to a key."""

    rule: Unique
    #: Names the key within its queue or type, in one length.
    digest: str
    #: For people: blank for a key made of arguments, which may be secret.
    label: str
    owner: str
    #: Whether the message continues the work of one that was published before: it is never refused.
    continues: bool = False
    #: The message that has the key; a store writes it where the claim's own message is dropped, or replaces it.
    first: First | None = None

    @property
    def changed_id(self) -> UUID | None:
        """The message whose body this one has replaced."""
        replaces = self.rule.second == "replace" and "body" in self.rule.replaces
        return self.first.message_id if replaces and self.first is not None else None


class Step(Enum):
    """What a publisher does with its message."""

    #: Take the key, and write the message.
    TAKE = auto()
    #: The key stays with the same work: note the message that continues it, and write that.
    CONTINUE = auto()
    #: Write the message without the key.
    PASS = auto()
    DROP = auto()
    REPLACE = auto()
    REFUSE = auto()


def is_free(until: str, ends_at: float | None, standing: Standing, now: float) -> bool:
    """Whether a message has its key no longer, by the rule of its publisher. A window may have no end."""
    if until == "window":
        return ends_at is not None and now >= ends_at
    return standing is Standing.GONE or (standing is Standing.BEGUN and until == "begins")


def step_of_second(second: str, standing: Standing) -> Step:
    """Decide what happens to the second message while the first one has the key."""
    if second == "drop":
        return Step.DROP
    return Step.REPLACE if second == "replace" and standing is Standing.WAITING else Step.REFUSE


def step(claim: UniqueClaim, first: First, standing: Standing, now: float, *, again: bool = False) -> Step:
    """Decide what happens to a message whose key another one has taken.

    ``again`` says that the publisher may have written the same message before.
    """
    if first.owner == claim.owner and (again or claim.continues):
        return Step.CONTINUE
    if is_free(first.until, first.ends_at, standing, now):
        return Step.TAKE
    return Step.PASS if claim.continues else step_of_second(claim.rule.second, standing)


def taken(claim: UniqueClaim, first: First, standing: Standing) -> DuplicateMessage:
    """Return the error for a message whose key is taken."""
    what = f"The unique key {claim.label!r}" if claim.label else "The unique key of these arguments"
    if claim.rule.second == "replace":
        why = "has begun" if standing is Standing.BEGUN else "is gone"
        return DuplicateMessage(f"{what} is taken by message {first.owner}, which {why} and cannot be replaced.")
    return DuplicateMessage(f"{what} is taken by message {first.owner}.")


def ends_at(rule: Unique, now: float) -> float | None:
    """Return when the window of a message ends that takes its key now; None without a window."""
    return None if rule.seconds is None else now + rule.seconds


def due_at(rule: Unique, first_at: float, now: float) -> float | None:
    """Return when a message that is debounced is due; None for another one."""
    if rule.debounce_seconds is None or rule.at_most_seconds is None:
        return None
    return min(now + rule.debounce_seconds, first_at + rule.at_most_seconds)


def claim_of(
    rule: Unique, *, queue: str, type_: str, owner: str, arguments: object, continues: bool = False
) -> UniqueClaim:
    """Return the claim of a message. Raises InvalidMessage for arguments of which no key can be made."""
    scope = queue if rule.within == "queue" else type_
    if not scope:
        raise InvalidMessage("A message that is unique within its type needs a type.")
    made = ("key", rule.key) if rule.key is not None else ("arguments", _text_of(_chosen(rule, arguments)))
    # No text has the character between them.
    digest = _digest_of("\0".join((rule.within, scope, *made)))
    return UniqueClaim(rule, digest, rule.key or "", owner, continues)


def by_arguments(rule: Unique, name: str, arguments: Mapping[str, object]) -> Unique:
    """Return the rule with a key that is made of the arguments of a task, unless it has a key.

    Arguments are values as JSON has them. Raises InvalidMessage for a rule that cannot be, or an argument that is
    not there.
    """
    if problem := next(rule.problems(), None):
        raise InvalidMessage(f"unique: {problem}")
    if rule.key is not None:
        return rule
    digest = _digest_of(f"{name}\0{_text_of(_chosen(rule, arguments))}")
    return replace(rule, key=f"arguments {digest}", arguments=None)


def _text_of(arguments: object) -> str:
    return json.dumps(arguments, sort_keys=True)


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _chosen(rule: Unique, arguments: object) -> object:
    if rule.arguments is None:
        return arguments
    if not isinstance(arguments, dict):
        raise InvalidMessage("unique names arguments, but the body is no JSON object; give a key instead.")
    fields: Mapping[str, object] = arguments
    if missing := [name for name in rule.arguments if name not in fields]:
        raise InvalidMessage(f"unique names the argument {missing[0]!r}, which is not there.")
    return {name: fields[name] for name in rule.arguments}
