"""What limits the delivery of a queue now: the nearest cause, of which the others are consequences."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

#: From this share on, slots count as busy and credit as used up.
BUSY_SHARE: Final = 0.9


class Factor(Enum):
    """What limits the delivery of a queue, the nearest cause first."""

    #: An operator has paused the queue.
    PAUSED = "paused"
    #: Nothing waits for a worker.
    EMPTY = "empty"
    #: No live worker takes from the queue.
    UNSERVED = "unserved"
    #: An operator told all workers to be quiet or to stop.
    QUIET = "quiet"
    #: The selector of no consumer matches the first messages.
    UNWANTED = "unwanted"
    #: As many messages are in flight as the queue allows.
    QUEUE = "queue"
    #: The queue lets no more workers receive.
    RECEIVERS = "receivers"
    #: The workers can do hardly more: all their slots are busy.
    SLOTS = "slots"
    #: The workers have as many messages in flight as they may.
    CREDIT = "credit"
    #: What waits is parked for its key: a limit by key is reached.
    KEYS = "keys"
    #: Messages wait for others of their group.
    GROUPS = "groups"
    #: Messages wait for the first one.
    ORDER = "order"
    #: Nothing that is known: the workers could have more messages.
    NOTHING = "nothing"


#: What the options of the queue, or its limits, hold up: more workers, or more credit for them, change nothing.
OWN: Final = frozenset({Factor.QUEUE, Factor.RECEIVERS, Factor.KEYS, Factor.GROUPS, Factor.ORDER})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFacts:
    """What is known of a queue, its workers and their consumers. A number of which 0 exist is not known."""

    paused: bool = False
    #: Whether a message is ready, or scheduled and due, and needs a worker.
    waits: bool = True
    #: Messages that wait until their key is freed.
    parked: int = 0
    #: Live workers that take from the queue, and how many of them may claim.
    workers: int = 1
    awake: int = 1
    #: How many of the first ready messages no consumer wants.
    unwanted: int = 0
    #: Messages in flight, and the most that the queue allows; workers that it lets receive.
    in_flight: int = 0
    most_in_flight: int | None = None
    most_receivers: int | None = None
    #: Slots of the workers, and credit of the consumers.
    busy_slots: int = 0
    slots: int = 0
    used_credit: int = 0
    credit: int = 0
    #: Whether messages of a group, or all, wait for those before them.
    grouped: bool = False
    strict: bool = False


def stopped_by(facts: DeliveryFacts) -> Factor | None:
    """Return what keeps a queue from delivering at all, None for nothing."""
    if facts.paused:
        return Factor.PAUSED
    if not facts.waits:
        return Factor.KEYS if facts.parked else Factor.EMPTY
    if not facts.workers:
        return Factor.UNSERVED
    if not facts.awake:
        return Factor.QUIET
    return Factor.UNWANTED if facts.unwanted else None


def limited_by(facts: DeliveryFacts) -> Factor:
    """Return what limits the delivery of a queue; first what more workers do not change."""
    return stopped_by(facts) or _slowed_by(facts)


def _slowed_by(facts: DeliveryFacts) -> Factor:
    spent = is_used_up(facts.used_credit, facts.credit)
    # By the slots, or by the credit if no slots are known.
    busy = is_used_up(facts.busy_slots, facts.slots) if facts.slots else spent
    idle = 0 if facts.most_receivers is None else facts.workers - facts.most_receivers
    held_up = (
        (Factor.QUEUE, is_used_up(facts.in_flight, facts.most_in_flight or 0)),
        (Factor.RECEIVERS, facts.most_receivers is not None and (idle > 0 or (idle == 0 and busy))),
        (Factor.SLOTS, busy),
        (Factor.CREDIT, spent),
        (Factor.KEYS, facts.parked > 0),
        (Factor.GROUPS, facts.grouped),
        (Factor.ORDER, facts.strict),
    )
    return next((factor for factor, holds in held_up if holds), Factor.NOTHING)


def is_used_up(used: int, of: int) -> bool:
    """Whether nearly all of it is used; never of something that does not exist."""
    return of > 0 and used >= BUSY_SHARE * of
