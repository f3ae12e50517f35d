"""One store of the two: its handles and its clock. Performs operations, and shows what the store holds."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_mq.engine.decisions.claim import MOST_BYTES, ByteCredit
from django_mq.engine.decisions.dead_letters import DEATHS
from django_mq.engine.decisions.ends import End, Ended
from django_mq.engine.decisions.keyed_limits import Allowed
from django_mq.engine.decisions.rates import Rate
from django_mq.engine.decisions.selection import Wanted
from django_mq.engine.decisions.unique import Unique, claim_of
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.options import QueueOptions
from django_mq.engine.selector import Selector
from django_mq.engine.states import State
from django_mq.errors import (
    AccessRefused,
    DuplicateMessage,
    InvalidMessage,
    QueueClosed,
    QueueFull,
    QueueInUse,
    SessionLost,
    UnknownQueue,
)
from django_mq.inprocess.memory.store import MemoryStore
from django_mq.models import Attempt, History, Queue
from django_mq.seams.ends import mark_of
from django_mq.seams.extension import Extension, Listening
from django_mq.stores import queue_records
from django_mq.stores.records import (
    ClaimRequest,
    ConsumerInfo,
    Failure,
    Heartbeat,
    NewMessage,
    Parked,
    SessionInfo,
    Settlement,
)
from django_mq.stores.registry import private_store, shared_store
from tests.agreement.history import KEY, QUEUES, SLOTS, STEP_SECONDS, WEIGHT, exchanges_to
from tests.scenarios.stored.environment import empty
from tests.stores.builders import declare
from tests.stores.conftest import edit_in_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.engine.decisions.keyed_limits import LimitFacts
    from django_mq.engine.decisions.unique import UniqueClaim
    from django_mq.stores.base import Store
    from django_mq.stores.records import Browsed, Claimed, ClaimResult, QueueRecord
    from tests.agreement.history import History as Plan

#: A server that has just started gives every session a deadline of grace.
HEAD_START = timedelta(hours=1)
#: Times are told in such steps: no two events of different operations are closer.
TOLD = timedelta(seconds=STEP_SECONDS / 2)
#: The duties whose subject is not maintenance.
DUTIES = {
    "prune": "retention.prune",
    "delete_unused": "deletions.delete_unused",
    "limits": "rates.prune",
}
LIMIT = 1000
ALL_STATES = [State.SCHEDULED, State.READY, State.CLAIMED, State.DEAD, State.PARKED]
#: What a store may answer instead of doing what it is asked; any other error is a fault.
REFUSALS = (
    AccessRefused,
    DuplicateMessage,
    InvalidMessage,
    QueueClosed,
    QueueFull,
    QueueInUse,
    SessionLost,
    UnknownQueue,
)
#: What the listening below was told since the last look, by the alias of the store.
_ended: dict[str, list[Ended]] = {}
#: Hears every end of the messages with even numbers.
LISTENING = Listening(
    name="agreement",
    ends=frozenset(End),
    wants=lambda message: message.message_id.int % 2 == 0,
    tell=lambda store, ended: _ended.setdefault(store.alias, []).extend(ended),
)
EXTENSION = Extension(name="agreement", ends=(LISTENING,))
#: Operations for whose refusal there may be several reasons.
PUBLISHING = ("publish", "publish_again", "publish_batch")


class NoSessionError(Exception):
    """The slot has had no session yet: the part of a history that opened one was left out."""


class Site:
    """A store as three workers and a publisher use it, each with a handle of its own."""

    def __init__(self, alias: str) -> None:
        self.store: Store = shared_store(alias)
        self.workers: list[Store] = [private_store(alias) for _ in range(SLOTS)]

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def begin(self, history: Plan, base: datetime) -> None:
        """Forget everything, and declare the queues, the last one first: it may be the target of others."""
        empty(self.store)
        self.queues, self.limited = history.queues, tuple(history.limits)
        #: The same, as an operator has changed them.
        self.options = dict(self.queues)
        self.base = base + HEAD_START
        #: Sessions by number; the slot, and the session that is in it.
        self.sessions: list[int] = []
        self.slots: list[int] = [-1] * SLOTS
        #: By session's number, what it has not settled yet, and all that was delivered, each with its session.
        self.held: list[list[Claimed]] = []
        self.past: list[tuple[int, Claimed]] = []
        #: What was acknowledged when it began, each with its session, and runs perhaps.
        self.begun: list[tuple[int, Claimed]] = []
        self.pass_to(0)
        _ended.pop(self.store.alias, None)
        for name in reversed(self.queues):
            self._make(name)
        self._told_history = self._told_attempts = 0
        #: Rows in memory that were told, by their identity.
        self._told_rows: dict[int, Any] = {}

    def pass_to(self, steps: int) -> None:
        self.now = timedelta(seconds=steps * STEP_SECONDS)
        for handle in (self.store, *self.workers):
            handle.database.clock_offset = HEAD_START + self.now

    # What can be seen.

    def look(self) -> dict[str, Any]:
        """All that the store holds, and what has become history since the last look."""
        return {
            "queues": {name: self._record(name) for name in self.queues},
            "messages": {name: [self._browsed(item) for item in self._browse(name)] for name in self.queues},
            "counts": {name: self._counted(counts) for name, counts in self.store.queues.counts().items()},
            "finished": sorted(self._finished(), key=repr),
            "failed": sorted(self._failed(), key=repr),
            "ended": sorted(
                (item.message_id.int, item.queue, item.end.name, item.type, item.new_row is None)
                for item in _ended.pop(self.store.alias, ())
            ),
            "limits": {name: self._used(self.store.rates.facts(name)) for name in self.limited},
        }

    def _used(self, facts: LimitFacts) -> dict[str, Any]:
        """What limits by key have used, as far as it is not free."""
        used = {place: each.free_at for place, each in facts.used.items() if each.free_at > facts.now}
        times = {"used": used, "held": facts.held, "waiting": facts.waiting}
        told = {
            name: {place: at and self._told(datetime.fromtimestamp(at, UTC)) for place, at in each.items()}
            for name, each in times.items()
        }
        return told | {"allowed": dict(facts.allowed), "running": dict(facts.running)}

    def _browse(self, name: str) -> list[Browsed]:
        return self.store.browser.browse(name, states=ALL_STATES, limit=1000)

    def _record(self, name: str) -> Any:
        record = self.store.queues.find(name)
        return None if record is None else asdict(replace(record, id=0, covered_by=None))

    def _told(self, moment: datetime | None) -> int | None:
        return None if moment is None else (moment - self.base) // TOLD

    def _browsed(self, item: Browsed) -> dict[str, Any]:
        told = {
            name: getattr(item, name) for name in ("level", "priority", "attempts", "type", "body", "dead_reason")
        }
        times = {"published": self._told(item.published_at), "deliver": self._told(item.deliver_at)}
        place = (item.place > 0) - (item.place < 0)
        number = item.message_id.int
        return {"number": number, "state": State(item.state).name, "place": place, **told, **times} | {
            "headers": _headers(item.headers)
        }

    @staticmethod
    def _counted(counts: Any) -> dict[str, Any]:
        age = counts.oldest_ready_seconds
        return asdict(counts) | {"oldest_ready_seconds": None if age is None else age // TOLD.total_seconds()}

    def _finished(self) -> list[dict[str, Any]]:
        if isinstance(self.store, MemoryStore):
            rows = self._untold(self.store.broker.history)
        else:
            rows = self._news(History, self._told_history)
            self._told_history = max([self._told_history, *(row.id for row in rows)])
        same = ("queue_name", "type", "priority", "attempts", "redelivered")
        return [
            {
                "number": row.message_id.int,
                "outcome": int(row.outcome),
                **{name: getattr(row, name) for name in same},
            }
            | {name: self._told(getattr(row, name)) for name in ("published_at", "ready_at", "claimed_at")}
            | {"headers": _headers(json.dumps(row.headers)), "body": row.body and bytes(row.body)}
            | {
                "session": self.sessions.index(row.session_id)
                if row.session_id in self.sessions
                else row.session_id
            }
            for row in rows
        ]

    def _untold(self, rows: Iterable[Any]) -> Sequence[Any]:
        """The rows in memory since the last look. Those before them may have been pruned."""
        found = {id(row): row for row in rows if id(row) not in self._told_rows}
        self._told_rows |= found
        return list(found.values())

    def _news(self, model: Any, told: int) -> Sequence[Any]:
        """The rows of a table beyond an id. Mostly there are none, and Django takes long to ask."""
        [(last,)] = self.store.database.fetch(f"SELECT max(id) FROM {model._meta.db_table}", ())  # type: ignore[attr-defined]
        found = model.objects.using(self.store.alias).filter(id__gt=told).order_by("id")
        return list(found) if (last or 0) > told else []

    def _failed(self) -> list[dict[str, Any]]:
        if isinstance(self.store, MemoryStore):
            rows = self._untold(self.store.broker.attempts)
        else:
            rows = self._news(Attempt, self._told_attempts)
            self._told_attempts = max([self._told_attempts, *(row.id for row in rows)])
        same = ("queue_name", "number", "error", "type", "correlation_id")
        return [{"message": row.message_id.int, **{name: getattr(row, name) for name in same}} for row in rows]

    # Operations.

    def perform(self, name: str, given: dict[str, Any]) -> Any:
        """Return the store's answer, a refusal being one, in words that are the same for every store."""
        for handle in (self.store, *self.workers):
            # The deletion of an unused queue is tried again at once: how long a store waits is its own affair.
            getattr(handle.deletions, "retry_at", {}).clear()
        # The workers stand for processes, of which each knows the queues by itself, and the clock stands still.
        for queue in QUEUES:
            queue_records.drop(self.store.database.alias, queue)
        try:
            return getattr(self, f"_{name}")(**given)
        except (*REFUSALS, NoSessionError) as refusal:
            self.store.maintenance.promote()  # a refusal rolls back that last values arrived, where it can
            # A queue that may not be deleted may have several reasons, of which any may be named.
            says = type(refusal).__name__ if isinstance(refusal, QueueInUse) else str(refusal)
            if name in PUBLISHING:
                says = self._reasons(given, refusal)
            return (
                {"refused": type(refusal).__name__, "says": says}
                if says
                else {"refused": "for one of several reasons"}
            )

    def _reasons(self, given: dict[str, Any], refusal: Exception) -> str:
        """What a refusal to publish says; nothing if there may be several reasons, of which any may be named."""
        messages = given.get("messages") or [given["message"]]
        records = [
            record for message in messages if (record := self.store.queues.find(message["queue"])) is not None
        ]
        closed = any(record.closed for record in records)
        full = any(record.has_publish_rules and record.overflow in {"reject", "flow"} for record in records)
        twice = any(
            "dedup" in message or "unique" in message or self._ids_in(message["queue"], [message["number"]])
            for message in messages
        )
        several = (
            closed
            or len({message["queue"] for message in messages}) > 1
            or (full and twice)
            or (twice and len(messages) > 1)
        )
        return "" if several else str(refusal)

    # Publishing.

    def _new(self, number: int, queue: str, **given: Any) -> NewMessage:
        times = {name: given[name] for name in ("deliver_at", "expires_at") if name in given}
        seconds = {"delay_seconds": given.get("delay"), "ttl_seconds": given.get("ttl")}
        message = NewMessage(
            queue_name=queue,
            message_id=UUID(int=number),
            body=json.dumps({"tenant": given["tenant"]}).encode()
            if "tenant" in given
            else b"x" * given.get("size", 2),
            content_type="json",
            headers=json.dumps(
                ({KEY: given["key"]} if "key" in given else {"a": 1.5})
                | ({WEIGHT: given["weight"]} if "weight" in given else {})
                | ({"region": given["region"]} if "region" in given else {})
            ),
            properties='{"p": 1}' if number % 2 else None,
            priority=given.get("priority", 4),
            type="a.type" if number % 3 else "",
            correlation_id=None if number % 5 else f"correlation {number}",
            group_key=given.get("group"),
            dedup_id=given.get("dedup"),
            unique=_claim(given["unique"], number, queue) if "unique" in given else None,
            **{name: self._moment(after) for name, after in times.items()},
            **seconds,
        )
        return replace(message, told_to=mark_of(message, [LISTENING]))

    def _moment(self, seconds: float) -> datetime:
        return self.base + self.now + timedelta(seconds=seconds)

    def _publish(self, messages: list[dict[str, Any]], *, again: bool = False) -> Any:
        """Publish as the publisher does: by rules where there are some."""
        made = [self._new(**message) for message in messages]
        records = [self.store.queues.find(message.queue_name) for message in made]
        made = [_placed(*each) for each in zip(made, records, strict=True)]
        if len(made) == 1 and made[0].unique is not None and self._is_first(made[0], records[0], again=again):
            return [True]
        if any(message.dedup_id is not None or message.unique is not None for message in made) or any(
            record is not None and record.has_publish_rules for record in records
        ):
            return [id_ > 0 for id_ in self.store.admission.append(made, again=again)]
        if len(made) == 1:
            return [self.store.publications.append(made[0], again=again) > 0]
        return [id_ > 0 for id_ in self.store.publications.append_many(made, again=again)]

    def _is_first(self, message: NewMessage, record: QueueRecord | None, *, again: bool) -> bool:
        """Whether the message is the first one with its key, and was written as such."""
        if again or message.dedup_id is not None or (record is not None and record.has_publish_rules):
            return False
        assert message.unique is not None
        return self.store.publications.append_first(message, message.unique)

    def _publish_again(self, message: dict[str, Any], *, again: bool) -> Any:
        try:
            return self._publish([message], again=again)
        finally:
            # As after a refusal: what was written before is not looked at by all stores.
            self.store.maintenance.promote()

    def _publish_batch(self, message: dict[str, Any], numbers: list[int]) -> Any:
        record = self.store.queues.find(message["queue"])
        if record is not None and record.has_publish_rules:
            return None
        like, ids = self._new(**message), [UUID(int=number).bytes for number in numbers]
        return self.store.publications.append_alike(like, ids, [b"x" * (number % 4) for number in numbers])

    # Sessions.

    def _session(self, slot: int) -> int:
        return self.sessions[self._number(slot)]

    def _number(self, slot: int) -> int:
        if self.slots[slot] < 0:
            raise NoSessionError
        return self.slots[slot]

    def _open(self, slot: int, seconds: float, kind: str = "native", queues: Sequence[str] = ()) -> None:
        """A new worker takes the slot; the one before is silent from now on, but not gone."""
        name = f"worker {len(self.sessions)}"
        info = SessionInfo(name=name, kind=kind, host="h", pid=1, version="1", queues=tuple(queues))
        self.slots[slot] = len(self.sessions)
        self.sessions.append(self.workers[slot].sessions.open(info, deadline_seconds=seconds))
        self.held.append([])

    def _renew(
        self,
        slot: int,
        seconds: float,
        consumers: list[dict[str, Any]],
        state: str,
        busy: int | None,
        **shown: Any,
    ) -> Any:
        told = tuple(
            ConsumerInfo(
                queue_name=one["queue"],
                priority=one["priority"],
                credit_limit=one["credit"],
                credit_used=one["used"],
                state=state,
                selector=one.get("selector", ""),
            )
            for one in consumers
        )
        heartbeat = Heartbeat(
            deadline_seconds=seconds,
            consumers=told,
            busy=busy,
            slots=None if busy is None else 1,
            queues=tuple(shown.get("queues", ())),
        )
        renewal = self.workers[slot].sessions.renew(self._session(slot), heartbeat)
        return renewal and (renewal.leader, renewal.command)

    def _die(self, slot: int) -> Any:
        """The deadline passes; another worker notices."""
        self.workers[slot].sessions.renew(self._session(slot), Heartbeat(deadline_seconds=-1))
        return self._reap()

    def _reap(self, spare: int | None = None) -> Any:
        spared = {} if spare is None else {"spare": self._session(spare)}
        return sorted((item.name, item.released, item.dead) for item in self.store.sessions.reap(**spared))

    def _close(self, slot: int) -> int:
        return self.workers[slot].sessions.close(self._session(slot))

    def _prolong(self, pick: int, seconds: float) -> bool:
        self._number(0)
        return self.store.sessions.prolong(self.sessions[pick % len(self.sessions)], deadline_seconds=seconds)

    def _revive(self, slot: int, pick: int) -> Any:
        """A session that was reaped, perhaps, comes back and brings what it knows of."""
        self._number(slot)
        number = pick % len(self.sessions)
        receipts = [(item.id, item.claim) for item in self.held[number]]
        info = SessionInfo(name=f"worker {number}", kind="native", host="h", pid=1, version="1")
        held = self.workers[slot].sessions.revive(self.sessions[number], info, receipts, deadline_seconds=350.0)
        if held is None:
            return None
        self.slots[slot] = number
        kept = [item.id in held for item in self.held[number]]
        self.held[number] = [item for item in self.held[number] if item.id in held]
        return kept

    def _subscribe(self, slot: int, queue: str) -> None:
        self.workers[slot].claims.subscribe(self._session(slot), queue)

    def _resync(self, slot: int, known: list[int]) -> int:
        held = self.held[self._number(slot)]
        kept = [held[pick % len(held)] for pick in known] if held else []
        self.held[self._number(slot)] = [item for item in held if item in kept]
        return self.workers[slot].claims.resync(self._session(slot), [item.id for item in kept])

    # Consuming.

    def _request(self, worker: Store, given: dict[str, Any]) -> ClaimRequest:
        for name in given["queues"]:
            worker.queues.find(name)  # as a worker does every few seconds, so that it knows of the queue's rules
        if given.get("promoted"):
            worker.maintenance.promote()
        return ClaimRequest(
            queues=tuple(given["queues"]),
            credit=given["credit"],
            slots=given.get("slots", 1),
            listed=given.get("listed", False),
            promote=not given.get("promoted"),
            full_scan=True,
            max_bytes=given.get("max_bytes", MOST_BYTES),
            limits=given.get("limits", {}),
            in_order=frozenset(given.get("in_order", ())),
            byte_credit={name: ByteCredit(*each) for name, each in given.get("byte_credit", {}).items()},
            wanted={
                name: [Wanted(Selector(text), limit) for text, limit in each]
                for name, each in given.get("wanted", {}).items()
            },
        )

    def _claim(self, slot: int, **given: Any) -> Any:
        return self._exchange(slot, [], given)

    def _settle(self, slot: int, items: list[dict[str, Any]], claim: dict[str, Any] | None = None) -> Any:
        held = self.held[self._number(slot)]
        # No batch has two verdicts over one message: the runtime forgets what it settles.
        chosen = {item["pick"] % len(held): item for item in items} if held else {}
        self.held[self._number(slot)] = [message for index, message in enumerate(held) if index not in chosen]
        settlements = [_settlement(held[index], **item) for index, item in chosen.items()]
        return self._exchange(slot, settlements, claim)

    def _exchange(self, slot: int, settlements: list[Settlement], claim: dict[str, Any] | None) -> Any:
        worker, number = self.workers[slot], self._number(slot)
        request = None if claim is None else self._request(worker, claim)
        if not settlements and request is None:
            return None
        try:
            result = worker.claims.settle_and_claim(self._session(slot), settlements, request)
        finally:
            if request is not None:
                # A store that finds nothing to claim may leave what is due in a paused queue as it is, and one
                # that has lost the session may have made ready what is due.
                self.store.maintenance.promote()
        begun = {item.receipt for item in settlements if item.verdict is Verdict.BEGIN}
        self.begun += [each for each in self.past if each[0] == number and each[1].receipt in begun]
        self.held[number] += result.claimed
        self.past += [(number, message) for message in result.claimed]
        return self._exchanged(result, settlements)

    def _all_are_there(self) -> bool:
        return all(self.store.queues.find(name) is not None for name in self.queues)

    def _exchanged(self, result: ClaimResult, settlements: list[Settlement]) -> dict[str, Any]:
        due = result.next_due_seconds
        return {
            "claimed": [self._claimed(item) for item in result.claimed],
            "left": sorted(result.left),
            # Half a second: when to look for what was left to better consumers.
            "due": due if due is None or due < 1 else -(-due // TOLD.total_seconds()),
            "whole": result.full_scan,
            "void": [item.id in result.void for item in settlements],
            # A store may remember the rules of a queue for seconds after its deletion.
            "constrained": result.constrained if result.claimed and self._all_are_there() else None,
        }

    def _claimed(self, item: Claimed) -> dict[str, Any]:
        same = ("queue_name", "level", "priority", "attempts", "redelivered", "suspect", "expired", "type")
        more = ("correlation_id", "group_key", "content_type", "content_encoding", "body")
        return {
            "number": item.message_id.int,
            "place": (item.place > 0) - (item.place < 0),
            **{name: getattr(item, name) for name in same + more},
            **{name: self._told(getattr(item, name)) for name in ("published_at", "deliver_at", "expires_at")},
            "headers": _headers(item.headers),
            "properties": item.properties and json.loads(item.properties),
        }

    def _settle_late(self, items: list[dict[str, Any]]) -> Any:
        """Settle in the name of the session that had it, be it there or not, held or not."""
        void = []
        for item in items if self.past else []:
            number, message = self.past[item["pick"] % len(self.past)]
            self.begun += [(number, message)] if item["how"] == "BEGIN" else []
            void.append(len(self.store.settlements.settle(self.sessions[number], [_settlement(message, **item)])))
            self.held[number] = [other for other in self.held[number] if other is not message]
        return void

    def _end_runs(self, picks: list[int]) -> list[int]:
        """End what was acknowledged when it began, be it over or not."""
        chosen = [self.begun[pick % len(self.begun)] for pick in picks if self.begun]
        ends = [(number, Settlement(message.id, message.claim, Verdict.END)) for number, message in chosen]
        return [len(self.store.settlements.settle(self.sessions[number], [end])) for number, end in ends]

    def _give_back(self, slot: int, picks: list[int]) -> None:
        held = self.held[self._number(slot)]
        chosen = {pick % len(held) for pick in picks} if held else set()
        if chosen:
            settlements = [_settlement(held[index], 0, "RELEASE") for index in sorted(chosen)]
            self.workers[slot].settlements.give_back(self._session(slot), settlements)
            # A value that was replaced meanwhile may stay until it is found to be over.
            self.store.maintenance.expire()
        self.held[self._number(slot)] = [item for index, item in enumerate(held) if index not in chosen]

    # Maintenance and steering.

    def _maintenance(self, duty: str) -> Any:
        run = attrgetter(DUTIES.get(duty, f"maintenance.{duty}"))(self.store)
        done = run(LIMIT) if duty == "limits" else run()
        if duty == "cover":
            for name, handle in product(self.queues, (self.store, *self.workers)):
                handle.queues.find(name)  # notices it at once
        return done if duty in {"trim", "prune", "delete_unused", "bury_unwanted"} else None

    def _ids(self, numbers: Iterable[int]) -> list[int]:
        return [id_ for name in self.queues for id_ in self._ids_in(name, numbers)]

    def _ids_in(self, queue: str, numbers: Iterable[int]) -> list[int]:
        wanted = set(numbers)
        return [item.id for item in self._browse(queue) if item.message_id.int in wanted]

    def _steer(self, messages: list[int], how: str) -> Any:
        changed = getattr(self.store.operations, how)(self._ids(messages))
        return len(changed)

    def _move(self, messages: list[int], queue: str) -> Any:
        # Of two copies of a message any may come first, and keep the other out.
        copies = [self._ids([number])[:1] for number in dict.fromkeys(messages)]
        return len(self.store.operations.move([id_ for some in copies for id_ in some], queue))

    def _prioritise(self, messages: list[int], priority: int) -> Any:
        return len(self.store.operations.prioritise(self._ids(messages), priority))

    def _reschedule(self, messages: list[int], seconds: float) -> Any:
        return len(self.store.operations.reschedule(self._ids(messages), self._moment(seconds)))

    def _purge(self, queue: str) -> Any:
        return self.store.deletions.purge(queue)

    def _pause(self, queue: str, *, paused: bool, seconds: float | None) -> None:
        self.store.queues.set_paused(queue, paused=paused, seconds=seconds)

    def _park(self, messages: list[int], key: str, seconds: float | None) -> int:
        return len(self.store.parking.park([Parked(id_, key, seconds) for id_ in self._ids(messages)]))

    def _free(self, queue: str, key: str, limit: int) -> int:
        return self.store.parking.free(queue, key, limit)

    def _hold(self, queue: str, limit: str, key: str, seconds: float) -> None:
        self.store.rates.hold(queue, limit, key, seconds)

    def _allow(
        self, queue: str, limit: str, key: str, rate: dict[str, Any] | None = None, at_once: int | None = None
    ) -> None:
        self.store.rates.allow(queue, limit, key, Allowed(None if rate is None else Rate(**rate), at_once))

    def _free_groups(self, queue: str, group: str | None = None) -> int:
        return self.store.queues.free_groups(queue, group)

    def _page(self, queue: str, states: list[str], limit: int) -> list[list[int]]:
        """Browse the whole queue, page by page."""
        pages: list[list[Browsed]] = []
        asked = [State[name] for name in states]
        while page := self.store.browser.browse(
            queue, states=asked, limit=limit, after=pages[-1][-1] if pages else None
        ):
            pages.append(page)
        return [[item.message_id.int for item in page] for page in pages]

    def _arrivals(self, queue: str, pick: int, limit: int) -> list[int]:
        """Follow the queue from one of its messages."""
        known = self.store.browser.arrivals(queue, after=0)
        after = known[pick % len(known)].id if known else 0
        return [item.message_id.int for item in self.store.browser.arrivals(queue, after=after, limit=limit)]

    def _edit(self, queue: str, changes: dict[str, Any]) -> None:
        """What an operator does in the admin."""
        options = self.options[queue] | {name: value for name, value in changes.items() if name != "closed"}
        if self.store.queues.find(queue) is None or not changes or list(QueueOptions(**options).contradictions()):
            return
        self.options[queue] = options
        if isinstance(self.store, MemoryStore):
            edit_in_memory(self.store, queue, **changes)
        else:
            Queue.objects.using(self.store.alias).filter(name=queue).update(counted_at=None, **changes)

    def _make(self, queue: str) -> None:
        declare(self.store, queue, **self.queues[queue])
        for name, selector in exchanges_to(queue).items():
            self.store.exchanges.bind(
                exchange=name, exchange_type="topic", pattern="#", queue=queue, selector=selector
            )

    def _declare(self, queue: str, *, is_use: bool) -> None:
        """Declare the queue, which may have been deleted because it was not used."""
        if self.store.queues.find(queue) is None:
            self.options[queue] = self.queues[queue]
        self._make(queue)
        if is_use:
            self.store.deletions.note_use([queue])

    def _delete(self, queue: str, *, force: bool) -> Any:
        """Delete the queue, if that is allowed, and declare it again as it was at first."""
        deleted = self.store.deletions.delete_queue(queue, force=force)
        self.store.maintenance.promote()  # a dead-letter queue may have noticed what is due
        self.options[queue] = self.queues[queue]
        self._make(queue)
        return deleted

    def _wait(self, steps: int) -> None:
        self.pass_to(round(self.now.total_seconds()) // STEP_SECONDS + steps)


def _claim(given: dict[str, Any], number: int, queue: str) -> UniqueClaim:
    rule = Unique(**{name: tuple(each) if isinstance(each, list) else each for name, each in given.items()})
    return claim_of(rule, queue=queue, type_="", owner=str(UUID(int=number)), arguments=None)


def _placed(message: NewMessage, queue: QueueRecord | None) -> NewMessage:
    """Return the message as the publisher gives it to a sorted queue."""
    if queue is None or queue.sorting is None:
        return message
    return replace(message, place=queue.sorting.place(queue.name, json.loads(message.headers)))


def _headers(text: str) -> Any:
    """The headers without the times of deaths, which are those of each store's clock."""
    headers = json.loads(text)
    for death in headers.get(DEATHS, ()):
        death.pop("time", None)
    return {name: value for name, value in headers.items() if name != "x-dead-at"}


def _settlement(message: Claimed, pick: int, how: str, **given: Any) -> Settlement:
    return Settlement(
        message.id,
        message.claim,
        Verdict[how],
        counted=given.get("counted", False),
        delay_seconds=given.get("delay", 0.0),
        reason="no",
        failure=Failure("error") if given.get("failed") else None,
        told_to=message.told_to,
        park_key=given.get("key", ""),
    )


def now() -> datetime:
    """This machine's time."""
    return datetime.now(UTC)
