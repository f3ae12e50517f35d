"""Consumers that choose their messages, at random: what a store that serves consumers is measured by."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.credit import PrefetchCredit, WindowCredit
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.selector import Selector
from django_mq.errors import MalformedSelector, OutOfRange, SubscriptionRefused, UncountedUnit
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.consumers.credit import OverdraftCredit, SpendingCredit
from django_mq.inprocess.consumers.target import Target
from django_mq.stores.records import ClaimRequest, Heartbeat
from django_mq.stores.registry import private_store
from tests.stores.builders import claim, declare, open_session, publish, settle

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import Claimed

#: Conditions of every kind that a selector may be made of.
CONDITIONS = (
    "region = 'eu'",
    "region <> 'eu' AND JMSType LIKE 'order.%'",
    "NOT (region = 'us' OR weight > 5)",
    "weight BETWEEN 2 AND 3 * 2 - 1",
    "weight NOT BETWEEN 1 AND 7 / 2 + -1",
    "region IN ('eu', 'asia') AND weight >= .5",
    "weight NOT IN (1, -2, +3) AND urgent = TRUE",
    "customer IS NOT NULL AND customer LIKE 'a!_%' ESCAPE '!'",
    "customer IS NULL OR urgent",
    "JMSPriority > 4 AND JMSTimestamp > 0 AND JMSDeliveryTime > 0 AND JMSExpiration = 0",
    "AMQSize < 30 AND JMSCorrelationID IS NOT NULL AND JMSDestination = 'choosing'",
    "JMSMessageID LIKE '%a%' AND \"x-count\" * 2.0 <= 0x10",
    "",
)
SLIPS = (
    "region =",
    "region = 'eu",
    "a BETWEEN 1",
    "a LIKE 'x!y' ESCAPE '!'",
    "(a = 1",
    "a IN (b)",
    "a IS 5",
    "1 = #",
)


def play(alias: str, count: int = 3, steps: int = 400) -> None:
    """Let consumers that choose their messages share a queue, at random; the same each time."""
    for text in SLIPS:
        with suppress(MalformedSelector):
            raise AssertionError(Selector(text))
    store = private_store(alias)
    for number in range(count):
        random = Random(f"structure {number}")
        declare(store, "choosing", kind=("priority", "fifo")[number % 2], max_attempts=3)
        declare(store, "other", grouping=("none", "shared")[number % 2])
        chosen: list[_Choosing | _Reading] = [_Choosing(store, random, index) for index in range(6)]
        chosen += [_Reading(store, random) for _ in range(2)]
        for _ in range(steps):
            if random.random() < 0.5:
                publish(store, random.choice(["choosing", "other"]), **_any_message(random))
            random.choice(chosen).act()
        for each in chosen:
            each.leave()
        store.deletions.purge("choosing")
        store.deletions.purge("other")
    store.close()


def meet(alias: str) -> None:
    """Let consumers ask for a queue alone, for credit of every kind, and fail as they are woken."""
    store = private_store(alias)
    declare(store, "meeting", max_in_flight=9)
    for wrong in (lambda: WindowCredit(-1), lambda: SpendingCredit(2**63), lambda: OverdraftCredit(-1)):
        with suppress(OutOfRange):
            wrong()
    alone, other = Consumer("meeting", exclusive=True), Consumer("meeting", exclusive=True)
    sessions = [open_session(store) for _ in range(2)]
    store.claims.subscribe(sessions[0], "meeting", alone)
    with suppress(SubscriptionRefused):
        store.claims.subscribe(sessions[1], "meeting", other)
    store.sessions.close(sessions[0])
    publish(store, "meeting")
    single = Consumer("meeting", transient=True)
    assert claim(store, sessions[1], "meeting", consumer=single, credit=1)
    spending, overdraft = SpendingCredit(-1, -1), OverdraftCredit(1)
    store.claims.subscribe(sessions[1], "meeting", Consumer("meeting", spending, priority=1, wake=_fail))
    with suppress(SubscriptionRefused):
        store.claims.subscribe(sessions[1], "meeting", other)
    drawing = Consumer("meeting", overdraft)
    store.claims.subscribe(sessions[1], "meeting", drawing)
    for size in (5, 0):
        publish(store, "meeting", body=b"x" * size, expires_at=datetime.now(UTC) + timedelta(days=1))
        claim(store, sessions[1], "meeting", consumer=drawing)
    with suppress(UncountedUnit):
        overdraft.resize(1)
    for change in (partial(overdraft.resize, None, 50), overdraft.stop):
        change()
        store.claims.subscribe(sessions[1], "meeting", drawing)
        claim(store, sessions[1], "meeting", consumer=drawing)
    store.close()


def _fail(consumer: Consumer) -> None:
    raise ZeroDivisionError(consumer)


def _any_message(random: Random) -> dict[str, Any]:
    headers = {
        "region": random.choice(["eu", "us", "asia", 7]),
        "weight": random.choice([1, 2, 4.5, 9, "heavy"]),
        "urgent": random.choice([True, False]),
        "customer": random.choice([None, "a_b", "other"]),
        "x-count": random.randrange(20),
    }
    return {
        "headers": json.dumps({name: value for name, value in headers.items() if random.random() < 0.8}),
        "type": random.choice(["order.paid", "order.sent", ""]),
        "correlation_id": random.choice([None, "one"]),
        "priority": random.randrange(10),
        "body": b"x" * random.randrange(50),
        "delay_seconds": random.choice([None, None, 0.001]),
        "group_key": random.choice(["one", "another"]),
    }


class _Choosing:
    """One consumer with a session, and what it holds."""

    def __init__(self, store: Store, random: Random, index: int) -> None:
        self._store, self._random, self._index = store, random, index
        self._arrive()

    def _arrive(self) -> None:

        random = self._random
        modes = (WindowCredit(3), WindowCredit(None, 90), PrefetchCredit(4, 40), SpendingCredit(9, 200))
        self._session = open_session(self._store)
        self._held: list[Claimed] = []
        self._woken: list[object] = []
        self._consumer = Consumer(
            "choosing",
            random.choice([*modes, OverdraftCredit(100)]),
            priority=random.choice([0, 0, 1]),
            selector=Selector(random.choice(CONDITIONS)),
            browser=self._index == 0,
            from_tail=random.random() < 0.2,
            wake=self._woken.append,
        )
        self._store.claims.subscribe(self._session, "choosing", self._consumer)

    def act(self) -> None:
        """Claim, settle, ask for more, or go and come again."""

        what = self._random.random()
        if what < 0.5:
            credit = self._random.randrange(1, 5)
            found = claim(self._store, self._session, "choosing", consumer=self._consumer, credit=credit)
            self._held += found
        elif what < 0.9 and self._held:
            message = self._held.pop(self._random.randrange(len(self._held)))
            settle(self._store, self._session, message, self._random.choice([*Verdict]))
        elif what < 0.97:
            self._consumer.paused = not self._consumer.paused
            with suppress(UncountedUnit):
                self._consumer.credit.add(1, 20)
            self._store.claims.subscribe(self._session, "choosing", self._consumer)
        else:
            self.leave()
            self._arrive()

    def leave(self) -> None:
        """End the session; what it holds goes back, one way or the other."""

        if self._random.random() < 0.5:
            self._store.sessions.close(self._session)
        else:
            self._store.sessions.renew(self._session, Heartbeat(deadline_seconds=-1))
            self._store.sessions.reap()


class _Reading:
    """A target that reads two queues on one credit, with a session, and what it holds."""

    def __init__(self, store: Store, random: Random) -> None:
        self._store, self._random = store, random
        self._arrive()

    def _arrive(self) -> None:
        self._session = open_session(self._store)
        self._held: list[Claimed] = []
        self._woken: list[Target] = []
        self._target = Target(
            self._random.choice([WindowCredit(2), SpendingCredit(9, 200)]), wake=self._woken.append
        )
        for queue in ("choosing", "other"):
            self._store.claims.subscribe(self._session, queue, self._target.consumer(queue))

    def act(self) -> None:
        """Claim, settle, pause or go on, or go and come again."""
        what = self._random.random()
        if what < 0.5:
            request = ClaimRequest(queues=(), credit=self._random.randrange(1, 5), consumer=self._target)
            self._held += self._store.claims.claim(self._session, request).claimed
        elif what < 0.9 and self._held:
            message = self._held.pop(self._random.randrange(len(self._held)))
            settle(self._store, self._session, message, self._random.choice([*Verdict]))
        elif what < 0.97:
            (self._target.resume if self._target.paused else self._target.pause)()
        else:
            self.leave()
            self._arrive()

    def leave(self) -> None:
        """End the session; what it holds goes back."""
        self._store.sessions.close(self._session)
