"""Claims from constrained queues: the claim lock, the facts with a page of messages, the lease.

The claim lock keeps other claims from the queue away, so that the facts are true until the lease is
committed; a statement that follows the lock sees what the claim before has written. The arbiter
decides. A claim is a conversation with the database, step by step; the statements of one step need no
answers of each other.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from django_mq.engine.arbiter import LEFT_SECONDS, OPTIONS, Award, Subscription, situation_of
from django_mq.engine.claim import fitting, left_behind, limit_of
from django_mq.engine.merge import merged, next_batch
from django_mq.engine.options import QueueOptions
from django_mq.engine.places import order_of
from django_mq.errors import SessionLost, StoreError
from django_mq.stores.records import Exchange
from django_mq.stores.sql.queues import PAGE, Remembering

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django_mq.engine.arbiter import Situation
    from django_mq.stores.records import Claimed, ClaimRequest

#: Each further page has so many times as many messages as the one before, up to the largest.
GROWTH, LARGEST_PAGE = 4, 20_000
#: Due messages promoted by one claim; the rest follows with the next.
PROMOTE_LIMIT = 1000
#: How often a claim begins again when all that it chose has been locked by other transactions.
TRIES = 3
#: More bytes than a body can have.
LONGEST = 2**62
#: Kinds of rows of facts.
ANSWER, QUEUE, SLOT, WAITING, CONSUMER, READY = range(6)

Rows: TypeAlias = list[tuple[Any, ...]]
Statement: TypeAlias = tuple[str, dict[str, Any]]


class Step(NamedTuple):
    """Statements that need no answers of each other. After the last step the transaction is committed."""

    statements: list[Statement]
    is_last: bool = False


#: Yields steps, is sent the rows of each statement, and returns what came of it.
Conversation: TypeAlias = Generator[Step, list[Rows], Any]


class Ready(NamedTuple):
    """A ready message, as the arbiter sees it."""

    id: int
    priority: int
    suspect: bool
    level: int
    place: int
    size_bytes: int
    owner: int | None
    group: str | None


NO_OPTIONS = QueueOptions()


@dataclass(slots=True)
class Facts:
    """What facts says of one queue."""

    alive: bool = False
    due_seconds: float | None = None
    #: None if there is no such queue.
    queue_id: int | None = None
    options: QueueOptions = NO_OPTIONS
    claimed: int = 0
    in_slots: set[int] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    subscriptions: list[Subscription] = field(default_factory=list)
    page: list[Ready] = field(default_factory=list)
    page_size: int = PAGE

    @classmethod
    def of(cls, rows: Rows, page_size: int) -> Facts:
        facts = cls(page_size=page_size)
        for kind, *numbers, word in rows:
            facts.note(kind, numbers, word)
        facts.page.sort(key=lambda item: order_of(item.level, item.place, item.id))
        return facts

    def note(self, kind: int, numbers: list[Any], word: Any) -> None:
        if kind == READY:
            self.page.append(Ready._make([*numbers, word]))
        elif kind == WAITING:
            self.waiting.add(word)
        elif kind == SLOT:
            self.in_slots.add(numbers[0])
        elif kind == CONSUMER:
            self.subscriptions.append(Subscription(*numbers))
        elif kind == QUEUE:
            self.queue_id, *values, self.claimed, _ = numbers
            self.options = QueueOptions(**dict(zip(OPTIONS, [word, *values], strict=True)))
        else:
            alive, due = numbers[:2]
            self.alive, self.due_seconds = bool(alive), None if due is None else due / 1_000_000

    @property
    def is_due(self) -> bool:
        return self.due_seconds is not None and self.due_seconds <= 0

    @property
    def is_constrained(self) -> bool:
        return self.options.is_constrained or bool(self.subscriptions)

    def situation(self, session: int) -> Situation:
        return situation_of(
            self.options,
            session,
            in_slots=frozenset(self.in_slots),
            claimed=self.claimed,
            waiting=frozenset(self.waiting),
            subscriptions=self.subscriptions,
        )


class Chosen(NamedTuple):
    """What the session may have of one queue, and whether there may be more."""

    name: str
    situation: Situation
    messages: list[Ready]
    left: bool
    more: bool


class Claim(NamedTuple):
    """What came of a claim, and the ids of what it chose if other transactions have locked too much of it."""

    result: Exchange
    missed: frozenset[int] = frozenset()


class Ruling(Remembering):
    """Claim from constrained queues."""

    #: Whether due messages are promoted in the first step, and not only once they are seen.
    _promotes_at_once: bool = False

    def _claim_by_rules(
        self, session_id: int, request: ClaimRequest, settling: Sequence[Statement] = ()
    ) -> tuple[Exchange, list[Rows]]:
        """Run the statements that settle, and claim; return the answers of both."""
        claim, settled = self._converse(self._claim_steps(session_id, request, frozenset(), settling))
        passed = claim.missed
        for _ in range(1, TRIES):
            if not claim.missed:
                break
            try:
                claim, _ = self._converse(self._claim_steps(session_id, request, passed, ()))
            except StoreError:
                if not settling:
                    raise
                break  # the first try has written the settlements: an error would say that nothing has happened
            passed |= claim.missed
        return claim.result, settled

    def _converse(self, conversation: Conversation) -> Any:
        """Hold a conversation in one transaction."""
        with self._transaction():
            return self._held(conversation)

    def _held(self, conversation: Conversation) -> Any:
        try:
            step = next(conversation)
            while True:
                step = conversation.send([self._rows(name, **params) for name, params in step.statements])
        except StopIteration as end:
            return end.value

    def _claim_steps(
        self, session_id: int, request: ClaimRequest, passed: frozenset[int], settling: Sequence[Statement]
    ) -> Conversation:
        """Claim, without the messages ``passed``; return the Claim and the answers of the settlements."""
        names = list(dict.fromkeys(request.queues))
        # In one order for all, or two claimers could wait for each other.
        turns = sorted(name for name in names if self._is_ruled(name))
        locking = self._locking(turns)
        promote = ("promote_due", {"queues": names, "limit": PROMOTE_LIMIT})
        if self._promotes_at_once and request.promote:
            locking.append(promote)
        answers = yield Step([*settling, *locking])
        sizes = {name: self._page_size(name, limit_of(request, name)) for name in names}
        facts = yield from self._facts(session_id, sizes)
        if request.promote and not self._promotes_at_once and any(each.is_due for each in facts.values()):
            yield Step([promote])
            facts = yield from self._facts(session_id, sizes)
        heads: list[Chosen] = []
        for name, each in facts.items():
            # A queue that has just become constrained is claimed from with its lock, the next time.
            if each.queue_id is not None and (name in turns or not each.is_constrained):
                heads.append((yield from self._head(session_id, name, each, limit_of(request, name), passed)))
        claim = yield from self._leased(session_id, request, heads)
        times = [max(0.0, each.due_seconds) for each in facts.values() if each.due_seconds is not None]
        unlocked = any(each.is_constrained and name not in turns for name, each in facts.items())
        if passed or claim.missed or unlocked or any(head.left for head in heads):
            times.append(LEFT_SECONDS)
        claim.result.next_due_seconds = min(times, default=None)
        return claim, answers[: len(settling)]

    def _facts(self, session_id: int, sizes: Mapping[str, int]) -> Generator[Step, list[Rows], dict[str, Facts]]:
        """Read the facts of each queue, with a page of this size. Raises SessionLost."""
        answers = yield Step(
            [("facts", {"session": session_id, "queue": name, "limit": size}) for name, size in sizes.items()]
        )
        found = {name: Facts.of(rows, sizes[name]) for name, rows in zip(sizes, answers, strict=True)}
        if not all(facts.alive for facts in found.values()):
            raise SessionLost
        for name, facts in found.items():
            wide = facts.options.has_groups or bool(facts.subscriptions)
            self._remember(name, is_constrained=facts.is_constrained, wide=wide)
        return found

    def _head(
        self, session_id: int, name: str, facts: Facts, credit: int, passed: frozenset[int]
    ) -> Generator[Step, list[Rows], Chosen]:
        """Choose from the first page that has something for the session."""
        situation = facts.situation(session_id)
        award: Award[Ready] = Award(session_id, credit, situation)
        page, size = facts.page, facts.page_size
        award.consider(page, lambda item: item.id in passed)
        while len(page) >= size and not award.chosen and not award.is_done:
            size, last = min(size * GROWTH, LARGEST_PAGE), page[-1]
            beyond = {"after": last.id, "level": last.level, "place": last.place}
            groups = sorted(award.passed_groups)
            given = {"queue_id": facts.queue_id, "groups": groups, "limit": size, **beyond}
            [rows] = yield Step([("page", given)])
            page = [Ready._make(row) for row in rows]
            award.consider(page, lambda item: item.id in passed)
        more = len(page) >= size and not award.is_done
        return Chosen(name, situation, award.chosen, award.left, more)

    def _leased(
        self, session_id: int, request: ClaimRequest, heads: Sequence[Chosen]
    ) -> Generator[Step, list[Rows], Claim]:
        """Lease the best of all heads."""
        by_id = {item.id: (head, item) for head in heads for item in head.messages}
        ranked = merged(
            [[(item.id, item.priority) for item in head.messages] for head in heads], listed=request.listed
        )
        limits = {name: limit_of(request, name) for name in request.queues}
        found = next_batch(ranked, request.credit, {id_: head.name for id_, (head, _) in by_id.items()}, limits)
        line = [(by_id[id_][1].suspect, by_id[id_][1].size_bytes) for id_ in found]
        ids = found[: fitting(line, request.slots, request.max_bytes)]
        if not ids:
            return Claim(Exchange(ruled=True))
        chosen = [by_id[id_] for id_ in ids]
        [rows] = yield Step([("claim_chosen", self._lease(session_id, chosen))], is_last=True)
        leased = {row[0]: self._claimed(row[1:]) for row in rows if row[1] is not None}
        claimed = [leased[id_] for id_ in ids if id_ in leased]
        seen = request.credit if any(head.more for head in heads) else len(found)
        left = left_behind(request, [item.queue_name for item in claimed], seen)
        missed = frozenset(ids) - {row[0] for row in rows} if not claimed else frozenset()
        return Claim(Exchange(claimed=claimed, left=left, ruled=True), missed)

    def _lease(self, session_id: int, chosen: Sequence[tuple[Chosen, Ready]]) -> dict[str, Any]:
        firsts: dict[str, int] = {}
        return {
            "ids": [item.id for _, item in chosen],
            # What stands behind a message that cannot be had must not be had of a strict queue: its messages are
            # one line, by the first of them. Any other message is a line of its own.
            "lines": [
                firsts.setdefault(head.name, item.id) if head.situation.strict else item.id
                for head, item in chosen
            ],
            "session": session_id,
            "claim": next(self._claims),
            "slots": [item.id for head, item in chosen if head.situation.takes_slot(session_id)],
            "groups": [item.id for head, item in chosen if head.situation.takes_group(item)],
        }

    def _locking(self, names: Sequence[str]) -> list[Statement]:
        """Return what waits for other claims from the queues, and keeps them out until the transaction ends."""
        return [("take_turn", {"queue": name}) for name in names]

    def _claimed(self, row: tuple[Any, ...]) -> Claimed:
        raise NotImplementedError


def lease_locked(
    run: Callable[..., Rows],
    *,
    ids: list[int],
    lines: list[int],
    slots: list[int],
    groups: list[int],
    **lease: int,
) -> Rows:
    """Do what claim_chosen of PostgreSQL does, where an UPDATE returns no rows; ``run`` runs one statement."""
    found = {row[0]: row for row in run("lock_chosen", ids=ids, share_bytes=LONGEST, **lease)}
    leased, closed = set[int](), set[int]()
    for id_, line in zip(ids, lines, strict=True):
        if id_ not in found:
            closed.add(line)
        elif line not in closed:
            leased.add(id_)
    if leased:
        run("lease", ids=sorted(leased), **lease)
    owned = [(id_, False) for id_ in slots if id_ in leased] + [(id_, True) for id_ in groups if id_ in leased]
    if owned:
        run("own_chosen", owned=json.dumps(owned), session=lease["session"])
    return [(id_, *(row if id_ in leased else [None])) for id_, row in found.items()]
