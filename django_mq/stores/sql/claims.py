"""Claims: lease ready messages to a session, in strict order.

A claim from a constrained queue takes the claim lock, reads the facts with a page of messages, asks the arbiter,
and leases. The claim lock keeps other claims away from the queue, so that the facts are true until the lease is
committed. A statement after the lock sees what the claim before has written. Such a claim is a conversation of
several steps with the database; the statements of one step do not need the answers of each other.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import dataclass, field, fields, replace
from itertools import compress, count, takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from django_mq.engine.decisions.arbiter import LEFT_SECONDS, OPTIONS, Award, Subscription, situation_of
from django_mq.engine.decisions.claim import ANY_SIZE, allowed, fitting, limit_of, merged, next_batch, order_of
from django_mq.engine.decisions.claim_limits import MOST_BODY_BYTES, OpenLimits
from django_mq.engine.decisions.selection import Assignment, may_want
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions
from django_mq.errors import SessionLost, StoreError
from django_mq.stores import errors, queue_records
from django_mq.stores.claim_limits import limits_of
from django_mq.stores.records import Claimed, ClaimResult, Parked
from django_mq.stores.sql.conditions import Condition, condition_of
from django_mq.stores.sql.database import Part
from django_mq.stores.sql.messages import LIMITED
from django_mq.stores.sql.queues import PAGE
from django_mq.stores.sql.rates import ALL, asking_keys, asking_rates, facts_of, using
from django_mq.stores.subjects import claims as subjects

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Mapping, Sequence

    from django_mq.engine.decisions.arbiter import Situation
    from django_mq.engine.decisions.claim_limits import Freed, OpenLimit
    from django_mq.engine.decisions.keyed_limits import LimitFacts
    from django_mq.engine.selector import Selector
    from django_mq.seams.limits import ClaimLimit
    from django_mq.stores.records import ClaimRequest, Settlement
    from django_mq.stores.sql.database import Asking, Rows, Statement
    from django_mq.stores.sql.ends import Ends
    from django_mq.stores.sql.fairness import FairPlaces
    from django_mq.stores.sql.last_values import LastValues
    from django_mq.stores.sql.messages import Messages
    from django_mq.stores.sql.parking import Parking
    from django_mq.stores.sql.queues import Queues
    from django_mq.stores.sql.settlements import Declines, Leases, Settlements


#: The column of a claim's rows with how many messages it saw, after the fields of Claimed.
SEEN_COLUMN = len(fields(Claimed))
#: Each further page is so many times as large as the one before, up to the largest.
GROWTH, LARGEST_PAGE = 4, 20_000
#: A session that has messages of a queue spends at most one part in so many of its time on these pages.
BEHIND_SHARE = 20
#: A claim for several handlers reads no further than to a page of this size once it has found a message.
FURTHEST_PAGE = 1000
#: The most due messages that one claim promotes.
PROMOTE_LIMIT = 1000
#: How often a claim tries when other transactions have locked all messages that it chose.
TRIES = 3
NO_CONDITIONS: Mapping[str, dict[str, Any]] = MappingProxyType({})


class Portion(NamedTuple):
    """What a claim reads of a queue, or of what one handler wants there, and how much."""

    queue: str
    limit: int
    #: None for all messages.
    condition: Condition | None = None
    selector: Selector | None = None
    #: Where the index of declared selectors has what matches, None if the selector is not declared.
    meets: list[int] | None = None


def portions_of(request: ClaimRequest) -> list[Portion] | None:
    """Return the portions of a claim, None if SQL cannot express them."""
    portions: list[Portion] = []
    for queue in request.queues:
        limit = limit_of(request, queue)
        if queue not in request.wanted:
            portions.append(Portion(queue, limit))
            continue
        together = min(request.credit, sum(each.limit for each in request.wanted[queue]))
        if len(request.wanted[queue]) > 1 and (queue in request.byte_credit or limit < together):
            return None  # what all handlers get together is counted in Python
        selectors = tuple(each.selector for each in request.wanted[queue])
        for number, each in enumerate(request.wanted[queue]):
            if each.limit <= 0:
                continue
            condition = condition_of(selectors[: number + 1], queue, f"w{len(portions)}_")
            if condition is None:
                return None
            portions.append(Portion(queue, min(limit, each.limit), condition, each.selector))
        if all(each.limit <= 0 for each in request.wanted[queue]):
            portions.append(Portion(queue, 0))  # its next due message is asked for
    return portions


def conditioned(portions: Sequence[Portion]) -> dict[str, Any]:
    """Return the conditions of a statement that reads these portions, with their parameters."""
    found = {number: each.condition for number, each in enumerate(portions, 1) if each.condition is not None}
    if not found:
        return {}
    if len(portions) == 1:
        wanted = f"AND {found[1].text}"
    else:
        cases = " ".join(f"WHEN {number} THEN {each.text}" for number, each in found.items())
        wanted = f"AND CASE {{position}} {cases} ELSE TRUE END"
    given = {"wanted": wanted} | {name: value for each in found.values() for name, value in each.params.items()}
    pairs = [(number, meets) for number, each in enumerate(portions, 1) for meets in each.meets or ()]
    if pairs:
        given |= {"met_by": [number for number, _ in pairs], "meets": [meets for _, meets in pairs]}
    return given


def prefilter(request: ClaimRequest, queue: str, *, every: bool) -> dict[str, Any]:
    """Return the condition that some handler wants a message of the queue, as far as SQL can express it.

    With ``every``, that of handlers without credit, too: where a message must not overtake those before it.
    """
    wanted = [each.selector for each in request.wanted.get(queue, ()) if every or each.limit > 0]
    found = [condition_of((each,), queue, f"w{number}_") for number, each in enumerate(wanted)]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return {}
    params = {name: value for each in known for name, value in each.params.items()}
    return {"wanted": f"AND ({' OR '.join(each.text for each in known)})"} | params


class Chosen(NamedTuple):
    """The messages of one queue that the session may have, and whether there may be more."""

    name: str
    situation: Situation
    messages: list[Ready]
    left: bool
    more: bool
    queue_id: int | None
    #: The groups that the session takes over from others.
    taken_over: set[str]
    limits: OpenLimits[Ready] | None
    #: What was read, in order, and whether that was all.
    seen: Sequence[Ready]
    is_whole: bool

    def passed(self, claimed: Container[int]) -> list[Ready]:
        """Return the messages before the first one that is ready still."""
        gone = set[int]()
        if self.limits is not None:
            gone = {item.id for item, _ in self.limits.parked} | {item.id for item in self.limits.dropped}
        return list(takewhile(lambda item: item.id in claimed or item.id in gone, self.seen))

    def line_of(self, item: Ready) -> Hashable:
        """Return the same value for the messages of which none may be claimed without those before it."""
        if self.situation.strict:
            return self.name
        in_group = self.situation.grouped and item.group is not None
        return (self.name, item.group) if in_group else item.id


class Asked(NamedTuple):
    """The limits that a claim asks in a queue, with the messages of its pages; None for none."""

    limits: OpenLimits[Ready] | None
    known: dict[int, Message]


UNLIMITED = Asked(None, {})
#: A message of which limits ask no more than the group.
NOT_READ = Message(id="")


class Resume:
    """Where a claim by rules begins to read, and what it learns for the next one. This one begins at the head."""

    #: What to ask before the facts, and the parameters of the facts.
    steps: Sequence[Statement] = ()
    spots: Mapping[str, Any] = MappingProxyType({})

    def from_head(self) -> Resume:
        """Return the same for a claim that has read anew, from the head."""
        return self

    def has_seen(self, steps: Sequence[Rows], heads: Sequence[Chosen], result: ClaimResult) -> None:
        """Learn from the answers of the steps and from the claim."""


class Claim(NamedTuple):
    """The result, and the ids of the chosen messages if other transactions had locked them."""

    result: ClaimResult
    missed: frozenset[int] = frozenset()


@dataclass(eq=False)
class Claims(Part, subjects.Claims):
    #: Whether due messages are promoted in the first step, and not after they are seen.
    promotes_at_once: ClassVar[bool] = False

    queues: Queues
    messages: Messages
    last_values: LastValues
    fairness: FairPlaces
    leases: Leases
    declines: Declines
    settlements: Settlements
    parking: Parking
    ends: Ends
    # By queue, when a claim that has messages may look for others on further pages, on the monotonic clock.
    _look_behind_at: defaultdict[str, float] = field(init=False, default_factory=lambda: defaultdict(float))
    # Tokens start at the clock, so that two stores of one session never use the same one.
    tokens: count[int] = field(init=False, default_factory=lambda: count(time.time_ns()))

    def settle_and_claim(
        self, session_id: int, settlements: Sequence[Settlement], request: ClaimRequest | None
    ) -> ClaimResult:
        if request is not None and not settlements:
            return self._claim(session_id, request)
        self._let_values_arrive(request)
        with self.database.transaction():
            void = self.settlements.settle(session_id, settlements) if settlements else frozenset()
            result = self._claim(session_id, request) if request is not None else ClaimResult()
        result.void = void
        return result

    def claim(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        return self._claim(session_id, request)

    def _claim(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        refuse_consumers(request.consumer)
        self._let_values_arrive(request)
        return self._promote_and_lease(session_id, request)

    def _let_values_arrive(self, request: ClaimRequest | None) -> None:
        """Let last values and messages of fair queues arrive that are due, before a claim that promotes."""
        if request is not None and request.promote:
            with self.database.closing_if_failed():
                if self.queues.keep_last_values(request.queues):
                    self.last_values.promote(request.queues)
                if self.queues.are_fair(request.queues):
                    self.fairness.promote(request.queues)

    def _promote_and_lease(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        if self.needs_facts(session_id, request):
            return self.by_rules(session_id, request)[0]
        with self.database.transaction():
            if request.promote:
                self.queues.promote(PROMOTE_LIMIT, request.queues)
            return self._ready(session_id, request)

    def _ready(self, session_id: int, request: ClaimRequest) -> ClaimResult:
        """Claim what is ready, if the rows alone decide. Raises SessionLost."""
        if not self.rows("session_alive", session=session_id):
            raise SessionLost
        rows = self._claim_rows(session_id, request)
        due = self.rows("next_due", queues=list(request.queues))[0][0]
        return self._result_of(rows, request, due)

    def portions(self, request: ClaimRequest) -> list[Portion] | None:
        """Return what one statement reads, None if it takes several: then the claim is one by rules."""
        return portions_of(request)

    def _looked_up(self, portion: Portion) -> Portion:
        """Return a portion with the places in the index of what its declared selector matches."""
        record = queue_records.remembered(self.database.alias, portion.queue)
        if portion.selector is None or record is None or record.declared is None:
            return portion
        return portion._replace(meets=record.declared.where(portion.selector))

    def subscribe(self, session_id: int, name: str, consumer: object | None = None) -> None:
        refuse_consumers(consumer)
        with self.database.transaction():
            for statement, params in self._locking([name]):
                self.rows(statement, **params)
            facts = self._facts(self.database.each, session_id, {name: 0})[name]
            if facts.queue_id is None:
                raise errors.no_such_queue(name)
            if facts.options.exclusive:
                if facts.in_slots - {session_id}:
                    raise errors.exclusive(name)
                if not facts.in_slots:
                    self.rows("own", queue_id=facts.queue_id, session=session_id)

    def needs_facts(self, session_id: int, request: ClaimRequest) -> bool:
        """Whether other sessions, what the session has declined, or Python decide which messages it may have."""
        if self.declines.have(session_id, request.queues):
            return True
        if self.queues.have_claim_rules(request.queues):
            return True
        return bool(request.wanted) and self.portions(request) is None

    def _page_size(self, session_id: int, request: ClaimRequest, name: str) -> int:
        if name in request.wanted or self.declines.have(session_id, [name]):
            return PAGE
        record = queue_records.remembered(self.database.alias, name)
        if record is not None and record.may_pass_many:
            return PAGE
        # Limits read what they are asked of a page, and a claim brings no more than there are slots.
        most = request.slots + request.ahead if record is not None and record.has_claim_limits else PAGE
        return max(1, min(most, PAGE, limit_of(request, name)))

    def resync(self, session_id: int, held: Sequence[int]) -> int:
        with self.database.transaction():
            return self.leases.release_unknown(session_id, held)

    def _claim_rows(self, session_id: int, request: ClaimRequest) -> Rows:
        name, params = self._claim_statement(session_id, request)
        return self.rows(name, **params)

    def _claim_statement(self, session_id: int, request: ClaimRequest) -> tuple[str, dict[str, Any]]:
        params: dict[str, Any] = {
            "session": session_id,
            "claim": next(self.tokens),
            "credit": request.credit,
            "slots": request.slots,
            "max_bytes": request.max_bytes,
            "first_bytes": ANY_SIZE,
        }
        portions = self.portions(request) or []
        if request.wanted:
            portions = [self._looked_up(each) for each in portions]
            params |= conditioned(portions)
        in_bytes = [request.byte_credit.get(portion.queue) for portion in portions]
        if len(portions) == 1:
            [portion], [given] = portions, in_bytes
            if given is not None:
                params |= {"max_bytes": min(request.max_bytes, given.free), "first_bytes": given.first}
            return "claim", params | {"queue": portion.queue, "credit": portion.limit}
        limits = [portion.limit for portion in portions]
        name = "claim_across"
        if request.byte_credit:
            name = "claim_across_by_bytes"
            params["free_of"] = [ANY_SIZE if each is None else each.free for each in in_bytes]
            params["first_of"] = [ANY_SIZE if each is None else each.first for each in in_bytes]
        return name, params | {
            "queues": [portion.queue for portion in portions],
            # The handlers of one queue have one number: the order of a queue is never broken.
            "listed": [request.queues.index(each.queue) if request.listed else 0 for each in portions],
            "limits": limits,
            # Candidates beyond the limits step over rows that others have locked meanwhile.
            "candidates": max(limits) * 4,
        }

    def _result_of(self, rows: Rows, request: ClaimRequest, due: float | None) -> ClaimResult:
        # Each queue is one portion, or one for each handler that may have messages.
        handlers = (request.wanted.get(queue) for queue in request.queues)
        across = sum(max(1, sum(each.limit > 0 for each in some or ())) for some in handlers) > 1
        if across:
            rows.sort(key=lambda row: row[-1])
        claimed = [self._claimed(row) for row in rows]
        if not across:
            claimed.sort(key=lambda item: order_of(item.level, item.place, item.id))
        seen = rows[0][SEEN_COLUMN] if rows else 0
        return ClaimResult(
            claimed=claimed,
            left=request.left_behind(claimed, seen),
            next_due_seconds=None if due is None else self._due_seconds(request, float(due)),
        )

    def _due_seconds(self, request: ClaimRequest, due: float) -> float:
        """Return when to promote next: soon, while a publisher's lock keeps last values from arriving."""
        is_kept = due <= 0 and request.promote and self.queues.keep_last_values(request.queues)
        return LEFT_SECONDS if is_kept else max(0.0, due)

    def _claimed(self, row: tuple[Any, ...]) -> Claimed:
        return Claimed(*row[:SEEN_COLUMN])

    # By rules.

    def by_rules(
        self, session_id: int, request: ClaimRequest, settling: Sequence[Statement] = ()
    ) -> tuple[ClaimResult, list[Rows]]:
        # In one order for all, or two claimers could wait for each other.
        locked = sorted(name for name in {*request.queues} if self.queues.has_claim_rules(name))
        with self.database.conversation() as ask:
            claim, settled = self._claim_steps(ask, session_id, request, locked, settling=settling)
        passed = claim.missed
        for _ in range(1, TRIES):
            if not claim.missed:
                break
            try:
                with self.database.conversation() as ask:
                    claim, _ = self._claim_steps(ask, session_id, request, locked, passed=passed)
            except StoreError:
                if not settling:
                    raise
                break  # an error would say that nothing has happened, but the settlements are written
            passed |= claim.missed
        return claim.result, settled

    def _claim_steps(
        self,
        ask: Asking,
        session_id: int,
        request: ClaimRequest,
        locked: Sequence[str],
        *,
        passed: frozenset[int] = frozenset(),
        settling: Sequence[Statement] = (),
    ) -> tuple[Claim, list[Rows]]:
        """Claim, but for the messages ``passed``; return the answers of the settlements, too."""
        names = list(dict.fromkeys(request.queues))
        locking = self._locking(locked)
        if self.promotes_at_once and request.promote:
            locking.append(("promote_due", {"queues": names, "limit": PROMOTE_LIMIT}))
        declared = {name: found for name in locked if (found := limits_of(name))}
        sizes = {name: self._page_size(session_id, request, name) for name in names}
        wanted = {name: prefilter(request, name, every=name in locked) for name in names}
        resume = self._resume(session_id, request)
        rates = [asking_rates(name) for name in declared]
        before = [*settling, *locking, *rates, *resume.steps]
        asking = self._asking_facts(session_id, sizes, {name: {**wanted[name], **resume.spots} for name in names})
        # A statement behind the lock sees what the claim before has written, in the same round trip, too.
        answers = ask([*before, *asking])
        facts = self._known(session_id, sizes, answers[len(before) :])
        limits = {
            name: self._opened(name, found, facts_of(rows), request)
            for (name, found), rows in zip(declared.items(), answers[len(settling) + len(locking) :], strict=False)
            if not facts[name].is_paused
        }
        self._learn(ask, {name: (asked.limits, ()) for name, asked in limits.items()})
        promoting = request.promote and not self.promotes_at_once and any(each.is_due for each in facts.values())
        waking = [name for name in locked if facts[name].is_waking]
        if promoting:
            self.queues.promote(PROMOTE_LIMIT, names)
        if waking:
            self.parking.free_due(PROMOTE_LIMIT, waking)
        freeing = self._freeing(limits, request)
        if promoting or waking or freeing:
            resume = resume.from_head()
            again = self._asking_facts(session_id, sizes, wanted)
            facts = self._known(session_id, sizes, self._freed(ask, freeing, again))
        heads: list[Chosen] = []
        for name, each in facts.items():
            # A queue that has just become constrained is claimed from the next time, with its lock.
            if each.queue_id is not None and (name in locked or not each.is_constrained):
                asked = limits.get(name, UNLIMITED)
                heads.append(self._head(ask, session_id, each, asked, request=request, name=name, passed=passed))
        claim = self._leased(ask, session_id, request, heads)
        claim.result.grouped = frozenset(name for name, each in facts.items() if each.options.has_groups)
        unlocked = any(each.is_constrained and name not in locked for name, each in facts.items())
        times = self._next_times(request, facts, locked, limits)
        if passed or claim.missed or unlocked or any(head.left for head in heads):
            times.append(LEFT_SECONDS)
        claim.result.next_due_seconds = min(times, default=None)
        claim.result.constrained = bool(locked) or unlocked
        claim.result.declined = any(each.declined.get(session_id) for each in facts.values())
        steps = answers[len(before) - len(resume.steps) : len(before)]
        resume.has_seen(steps, heads, claim.result)
        return claim, answers[: len(settling)]

    def _next_times(
        self,
        request: ClaimRequest,
        facts: Mapping[str, Facts],
        locked: Sequence[str],
        limits: Mapping[str, Asked],
    ) -> list[float]:
        """Return in how many seconds a message is due, is woken, or comes within a limit."""
        times = [
            self._due_seconds(request, each.due_seconds) for each in facts.values() if each.due_seconds is not None
        ]
        limiting = [each.limits for each in limits.values() if each.limits is not None]
        times += [seconds for each in limiting if (seconds := each.next_seconds) is not None]
        times += [0.0 for each in limiting if each.is_full]
        times += [max(0.0, due) for name in locked if (due := facts[name].woken_seconds) is not None]
        return times

    def _resume(self, session_id: int, request: ClaimRequest) -> Resume:  # noqa: ARG002 - of those with cursors
        """Return where a claim by rules begins: at the head."""
        return Resume()

    def _facts(
        self,
        ask: Asking,
        session_id: int,
        sizes: Mapping[str, int],
        wanted: Mapping[str, dict[str, Any]] = NO_CONDITIONS,
    ) -> dict[str, Facts]:
        """Read the facts of each queue, with a page of this size of what is wanted. Raises SessionLost."""
        return self._known(session_id, sizes, ask(self._asking_facts(session_id, sizes, wanted)))

    def _asking_facts(
        self, session_id: int, sizes: Mapping[str, int], wanted: Mapping[str, dict[str, Any]]
    ) -> list[Statement]:
        return [
            ("facts", {"session": session_id, "queue": name, "limit": size} | wanted.get(name, {}))
            for name, size in sizes.items()
        ]

    def _known(self, session_id: int, sizes: Mapping[str, int], answers: Sequence[Rows]) -> dict[str, Facts]:
        """Return the facts of each queue from their rows. Raises SessionLost."""
        found = {name: self._facts_of(rows, sizes[name]) for name, rows in zip(sizes, answers, strict=True)}
        if not all(facts.alive for facts in found.values()):
            raise SessionLost
        for name, facts in found.items():
            record = queue_records.remembered(self.database.alias, name)
            if facts.is_constrained and record is not None and not record.has_claim_rules:
                queue_records.forget(self.database.alias, name)
            if not facts.declined.get(session_id):
                self.declines.forget(session_id, name)
        return found

    def _head(
        self,
        ask: Asking,
        session_id: int,
        facts: Facts,
        asked: Asked,
        *,
        request: ClaimRequest,
        name: str,
        passed: frozenset[int],
    ) -> Chosen:
        """Choose from the first page that has messages for the session.

        If the session could begin more messages than it has, look for other groups on the pages behind. With
        several handlers, the first page may have messages of one that is full. Beyond some pages, the next claim
        goes on, which leaves that handler out.
        """
        limits, known = asked.limits, asked.known if asked.limits is not None else {}
        situation = facts.situation(session_id, known, in_order=name in request.in_order)
        wanted = request.wanted.get(name, ())
        credit, assignment = limit_of(request, name), None
        if limits is not None:  # what waits in a worker's memory would use its limit up
            credit = min(credit, limits.most)
        if wanted:
            credit = min(credit, sum(each.limit for each in wanted))
        if len(wanted) > 1 or (wanted and not prefilter(request, name, every=True)):
            assignment = Assignment[Ready](wanted, lambda item: known[item.id])
        award: Award[Ready] = Award(session_id, credit, situation, assignment, limits)
        page, size, declined = facts.page, facts.page_size, facts.declined.get(session_id, ())
        most = FURTHEST_PAGE if len(wanted) > 1 else 0
        begin, seen = time.monotonic(), list[Ready]()
        while True:
            there = page
            seen += page
            is_read = limits is not None and limits.reads_messages
            if page and (assignment is not None or is_read or any(facts.selectors)):
                ids = [item.id for item in page]
                if limits is not None and limits.reads_bodies:
                    known.update(self.messages.with_bodies(name, ids, readable_of(page), ask))
                else:
                    known.update(self.messages.described(name, ids, ask))
                # A session that does not know the rules of the queue yet may have taken some meanwhile.
                there = [item for item in page if item.id in known]
            self._learn(ask, {name: (limits, there)})
            award.consider(undeclined(there, declined), lambda item: item.id in passed)
            if len(page) < size or award.is_done:
                break
            # What limits refuse is parked: no claim reads it again.
            is_early = begin < self._look_behind_at[name] and not (limits is not None and limits.refused)
            is_enough = award.beginning >= request.slots or is_early
            if award.chosen and is_enough and size >= most:
                break
            size, last = min(size * GROWTH, LARGEST_PAGE), page[-1]
            beyond = {"after": last.id, "level": last.level, "place": last.place}
            groups = sorted(award.passed_groups)
            given = {"queue_id": facts.queue_id, "groups": groups, "limit": size, **beyond}
            in_order = facts.options.has_groups or facts.options.strict
            [rows] = ask([("page", given | prefilter(request, name, every=in_order))])
            page = [Ready._make(row) for row in rows]
            took = time.monotonic() - begin
            self._look_behind_at[name] = begin + took * BEHIND_SHARE
        is_whole = len(page) < size
        more = not (is_whole or award.is_done)
        taken = award.chosen, award.left, more, facts.queue_id, award.taken_over, limits
        return Chosen(name, situation, *taken, seen, is_whole)

    def _opened(
        self, name: str, declared: Sequence[ClaimLimit], facts: LimitFacts, request: ClaimRequest
    ) -> Asked:
        """Open the limits of a queue."""
        known: dict[int, Message] = {}
        told: dict[int, Message] = {}
        opened = [each.opened(self.ends.store, name, facts) for each in declared]

        def message_of(item: Ready) -> Message:
            if item.id not in told:
                told[item.id] = replace(known.get(item.id, NOT_READ), group=item.group)
            return told[item.id]

        return Asked(OpenLimits(opened, message_of, slots=request.slots, ahead=request.ahead), known)

    def _learn(self, ask: Asking, asked: Mapping[str, tuple[OpenLimits[Ready] | None, Sequence[Ready]]]) -> None:
        """Read what the limits of each queue must know of what waits and of these messages, beyond the facts."""
        found = {
            name: (limits, keys)
            for name, (limits, items) in asked.items()
            if limits is not None and (keys := limits.lacking(items))
        }
        if found:
            answers = ask([asking_keys(name, keys) for name, (_, keys) in found.items()])
            for (limits, keys), rows in zip(found.values(), answers, strict=True):
                limits.learn(keys, facts_of(rows, ALL))

    def _freeing(self, limits: Mapping[str, Asked], request: ClaimRequest) -> list[tuple[str, OpenLimit, Freed]]:
        """Return what the limits of each queue let go on now."""
        return [
            (name, limit, freed)
            for name, asked in limits.items()
            if asked.limits is not None
            for limit, freed in asked.limits.frees(max(0, min(asked.limits.most, limit_of(request, name))))
        ]

    def _freed(
        self, ask: Asking, freeing: Sequence[tuple[str, OpenLimit, Freed]], then: Sequence[Statement]
    ) -> list[Rows]:
        """Make messages ready that were parked, and return what is asked then."""
        counts, answers = self.parking.free_with(ask, [(name, *freed) for name, _, freed in freeing], then)
        for (_, limit, freed), amount in zip(freeing, counts, strict=True):
            limit.freed(freed, amount)
        return answers

    def _leased(self, ask: Asking, session_id: int, request: ClaimRequest, heads: Sequence[Chosen]) -> Claim:
        by_id = {item.id: (head, item) for head in heads for item in head.messages}
        ranked = merged(
            [[(item.id, item.priority) for item in head.messages] for head in heads], listed=request.listed
        )
        limits = {name: limit_of(request, name) for name in request.queues}
        found = next_batch(ranked, request.credit, {id_: head.name for id_, (head, _) in by_id.items()}, limits)
        sizes = ((by_id[id_][0].name, by_id[id_][1].size_bytes) for id_ in found)
        within = list(compress(found, allowed(sizes, request.byte_credit))) if request.byte_credit else found
        line = [(by_id[id_][1].suspect, by_id[id_][1].size_bytes) for id_ in within]
        ids = within[: fitting(line, request.slots, request.max_bytes)]
        moving: list[Statement] = [
            ("take_over", {"session": session_id, "queue_id": head.queue_id, "groups": sorted(head.taken_over)})
            for head in heads
            if head.taken_over
        ]
        chosen, token = [by_id[id_] for id_ in ids], next(self.tokens)
        for head in heads:
            if head.limits is not None:
                moving += self._refusing(ask, head.limits)
                for used in head.limits.writes([((item.id, token), item) for of, item in chosen if of is head]):
                    moving += using(head.name, *used)
        if not ids:
            ask(moving, is_last=True)
            return Claim(ClaimResult())
        rows = self._lease(ask, moving, **self._lease_of(session_id, chosen, token))
        leased = {row[0]: self._claimed(row[1:]) for row in rows if row[1] is not None}
        claimed = [leased[id_] for id_ in ids if id_ in leased]
        seen = request.credit if any(head.more for head in heads) else len(found)
        left = request.left_behind(claimed, seen)
        missed = frozenset(ids) - {row[0] for row in rows} if not claimed else frozenset()
        return Claim(ClaimResult(claimed=claimed, left=left), missed)

    def _refusing(self, ask: Asking, limits: OpenLimits[Ready]) -> list[Statement]:
        """Remove what limits drop, and return the statements that park what they refuse."""
        if limits.dropped:
            self.messages.remove([item.id for item in limits.dropped], LIMITED)
        parked = [Parked(item.id, key, seconds) for item, (key, seconds, _) in limits.parked]
        return self.parking.parking(ask, parked) if parked else []

    def _lease_of(self, session_id: int, chosen: Sequence[tuple[Chosen, Ready]], token: int) -> dict[str, Any]:
        firsts: dict[Hashable, int] = {}
        return {
            "ids": [item.id for _, item in chosen],
            # In a strict queue, and in a group, no message may be leased behind one that is locked: the messages
            # are one line, with the id of the first. Any other message is a line of its own.
            "lines": [firsts.setdefault(head.line_of(item), item.id) for head, item in chosen],
            "session": session_id,
            "claim": token,
            "slots": [item.id for head, item in chosen if head.situation.takes_slot(session_id)],
            "groups": [item.id for head, item in chosen if head.situation.takes_group(item)],
        }

    def _locking(self, names: Sequence[str]) -> list[Statement]:
        """Return the statements that take the claim locks."""
        return [("lock_claims", {"queue": name}) for name in names]

    def _facts_of(self, rows: Rows, page_size: int) -> Facts:
        return Facts.of(rows, page_size)

    def _lease(
        self,
        ask: Asking,
        moving: Sequence[Statement],
        *,
        ids: list[int],
        lines: list[int],
        slots: list[int],
        groups: list[int],
        **lease: int,
    ) -> Rows:
        """Lock messages, lease those of each line before the first locked one, and own their slots and groups.

        Returns the id of each message that could be locked, with its columns, or nulls where it is not leased.
        """
        *_, locked = ask([*moving, ("lock_chosen", {"ids": ids, "share_bytes": ANY_SIZE, **lease})])
        found = {row[0]: row for row in locked}
        leased, closed = set[int](), set[int]()
        for id_, line in zip(ids, lines, strict=True):
            if id_ not in found:
                closed.add(line)
            elif line not in closed:
                leased.add(id_)
        leasing: list[Statement] = [("lease", {"ids": sorted(leased), **lease})] if leased else []
        owned = [(id_, False) for id_ in slots if id_ in leased] + [(id_, True) for id_ in groups if id_ in leased]
        if owned:
            leasing.append(("own_chosen", {"owned": json.dumps(owned), "session": lease["session"]}))
        ask(leasing, is_last=True)
        return [(id_, *(row if id_ in leased else [None])) for id_, row in found.items()]


def refuse_consumers(consumer: object | None) -> None:
    """Raise UnsupportedRule for features that only queues in memory have."""
    if consumer is not None:
        raise errors.unsupported("a consumer with a selector, credit for bytes or wake-ups")


#: Kinds of rows of facts.
ANSWER, QUEUE, SLOT, WAITING, CONSUMER, READY, DECLINED = range(7)


class Ready(NamedTuple):
    """A ready message as the arbiter sees it."""

    id: int
    priority: int
    suspect: bool
    level: int
    place: int
    size_bytes: int
    owner: int | None
    group: str | None


def undeclined(page: Sequence[Ready], declined: Container[int]) -> list[Ready]:
    """Return the messages that are not among the declined ones."""
    return [item for item in page if item.id not in declined]


def readable_of(page: Sequence[Ready]) -> list[int]:
    """Return the messages whose bodies limits read."""
    return [item.id for item in page if item.size_bytes <= MOST_BODY_BYTES]


NO_OPTIONS = QueueOptions()


@dataclass(slots=True)
class Facts:
    alive: bool = False
    due_seconds: float | None = None
    #: In how many seconds the first parked message is to be freed, None if no time is set.
    woken_seconds: float | None = None
    #: None if there is no such queue.
    queue_id: int | None = None
    options: QueueOptions = NO_OPTIONS
    claimed: int = 0
    is_paused: bool = False
    in_slots: set[int] = field(default_factory=set)
    keeping: list[tuple[str, int | None]] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    #: The selector of each subscription, blank for all messages.
    selectors: list[str] = field(default_factory=list)
    page: list[Ready] = field(default_factory=list)
    page_size: int = PAGE
    #: By session, the messages that it has declined.
    declined: dict[int, set[int]] = field(default_factory=dict)

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
            self.keeping.append((word, numbers[0]))
        elif kind == SLOT:
            self.in_slots.add(numbers[0])
        elif kind == CONSUMER:
            self.subscriptions.append(Subscription(*numbers))
            self.selectors.append(word)
        elif kind == DECLINED:
            self.declined.setdefault(numbers[1], set()).add(numbers[0])
        elif kind == QUEUE:
            self.queue_id, *values, self.claimed, is_paused = numbers
            self.is_paused = bool(is_paused)
            self.options = QueueOptions(**dict(zip(OPTIONS, [word, *values], strict=True)))
        else:
            alive, *times = numbers[:3]
            self.alive = bool(alive)
            self.due_seconds, self.woken_seconds = (None if at is None else at / 1_000_000 for at in times)

    @property
    def is_due(self) -> bool:
        return self.due_seconds is not None and self.due_seconds <= 0

    @property
    def is_waking(self) -> bool:
        return self.woken_seconds is not None and self.woken_seconds <= 0

    @property
    def is_constrained(self) -> bool:
        return self.options.depends_on_sessions(priorities_differ=bool(self.subscriptions))

    def situation(self, session: int, known: Mapping[int, Message], *, in_order: bool) -> Situation:
        """Return the situation of the arbiter; ``known`` will have the messages of the pages, if selectors ask."""
        told = zip(self.subscriptions, self.selectors, strict=True)
        return situation_of(
            self.options,
            session,
            in_slots=frozenset(self.in_slots),
            claimed=self.claimed,
            in_order=in_order,
            keeping=self.keeping,
            subscriptions=[self._wanting(item, selector, known) for item, selector in told],
        )

    def _wanting(self, subscription: Subscription, selector: str, known: Mapping[int, Message]) -> Subscription:
        """Return the subscription with what it wants: what matches, and its session has not declined."""
        declined = self.declined.get(subscription.session, ())
        if not (selector or declined):
            return subscription
        return subscription._replace(
            wants=lambda item: item.id not in declined and (not selector or may_want((selector,), known[item.id]))
        )
