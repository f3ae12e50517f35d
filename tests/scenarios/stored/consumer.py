"""A consumer of stored queues: one worker session, its credit, and what it holds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django_mq.delivery.consumer.attempt import Delivery
from django_mq.delivery.consumer.handlers import Handler
from django_mq.engine.decisions.claim import ByteCredit
from django_mq.engine.decisions.credit import WindowCredit
from django_mq.engine.decisions.selection import Wanted
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import Reject, Release
from django_mq.inprocess.consumers.consumer import DEFAULT_CONSUMER_PRIORITY, Consumer
from django_mq.inprocess.consumers.credit import OverdraftCredit
from django_mq.inprocess.consumers.target import Target
from django_mq.stores.records import ClaimRequest, ConsumerInfo, Heartbeat, SessionInfo, Settlement
from tests.scenarios.errors import UnfitError
from tests.scenarios.stored.browser import StoredBrowser
from tests.scenarios.stored.hints import Hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_mq.engine.decisions.credit import Credit
    from django_mq.stores.records import Claimed, QueueRecord
    from tests.scenarios.stored.entry import StoredEntry
    from tests.scenarios.stored.queue import StoredQueue
    from tests.scenarios.stored.site import Site

#: Longer than any scenario, by the clock it is played on: no session dies but by ``lose``.
DEADLINE_SECONDS = 1e10

#: What of a subscription has no stored form, and its default. Nothing is taken back from a stealable consumer.
ENGINE_ONLY: dict[str, Any] = {
    "browser": False,
    "exclusive": False,
    "from_tail": False,
    "no_local": False,
}
#: What only a browser has.
OF_BROWSERS = {"browser", "from_tail"}
#: What of it a store that serves consumers has no form for, either.
STORED_NOWHERE: dict[str, Any] = {"no_local": False}


class StoredConsumer:
    """Claims one message at a time, if its credit allows, and settles it.

    In a store that serves consumers it is one of the engine's, and the store asks its selector and its credit.
    """

    def __init__(
        self,
        name: str,
        credit: Credit,
        *,
        priority: int = DEFAULT_CONSUMER_PRIORITY,
        auto_accept: bool = False,
        target: Target | None = None,
        wake: Callable[[Any], None] | None = None,
        **options: Any,
    ) -> None:
        self._options = options
        #: The engine's target that it reads its queues for; None: it reads one queue.
        self._target = target
        self._wake = wake
        #: What it hears, in a store that serves no consumers.
        self._hints: Hints | None = None
        #: By queue: the engine's consumer, in a store that serves consumers.
        self._served: dict[str, Consumer] = {}
        self.name = name
        self.credit = credit
        self.priority = priority
        self.auto_accept = auto_accept
        self.paused = False
        #: The first of its queues, as a consumer of one has it.
        self.queue: StoredQueue | None = None
        #: The queues that its heartbeats name, and what the last one said.
        self._heard_of: dict[str, StoredQueue] = {}
        self._told: tuple[ConsumerInfo, ...] = ()
        #: By row: what it was sent and has not settled, in order of delivery.
        self.held: dict[int, StoredEntry] = {}
        self.session_id = 0
        self.departed = False
        #: Whether it claims no more; its session may go on, with what it holds.
        self.retired = False
        #: What open transactions have settled: a worker that stops ends these first.
        self.in_transactions: list[StoredEntry] = []
        self._has_claimed = False
        #: The bytes that it was sent and has spent for good.
        self._spent_bytes = 0
        #: Whether it browses, in a store that serves no consumers; and by queue, how far it has seen that.
        self._browses = False
        self._browsers: dict[str, StoredBrowser] = {}
        #: What it was shown and has not settled.
        self._looking_at: list[StoredEntry] = []

    def open(self, site: Site, queue: StoredQueue) -> None:
        """Open its worker session."""
        is_shown = bool(self._options.get("browser")) or queue.rules.nondestructive
        self._browses = is_shown and not site.store.features.serves_consumers
        unserved = STORED_NOWHERE if site.store.features.serves_consumers else ENGINE_ONLY
        for option, usual in unserved.items():
            if self._options.get(option, usual) != usual and not (self._browses and option in OF_BROWSERS):
                raise UnfitError(f"a consumer of a stored queue has no {option}")
        info = SessionInfo(name=self.name, kind="native", host="host", pid=1, version="1", queues=(queue.name,))
        self.session_id = site.store.sessions.open(info, deadline_seconds=DEADLINE_SECONDS)
        if self._wake is not None and not site.store.features.serves_consumers:
            self._hints = Hints(site.notifier, partial(self._wake, self))

    def subscribe(self, queue: StoredQueue) -> None:
        """Subscribe to a queue, or tell it that the credit was changed or the consumer paused."""
        store, known = queue.site.store, self._served.get(queue.name)
        if store.features.serves_consumers and known is None:
            options = {name: value for name, value in self._options.items() if name not in STORED_NOWHERE}
            known = self._served[queue.name] = self._new_consumer(
                priority=self.priority, auto_accept=self.auto_accept, **options
            )
        if known is not None:
            known.paused = self.paused
        if self._hints is not None:
            self._hints.listen([*self._heard_of, queue.name])
        if self._browses:
            if queue.name not in self._browsers:
                self._browsers[queue.name] = StoredBrowser(
                    store,
                    queue.name,
                    from_tail=bool(self._options.get("from_tail")),
                    selector=self._options.get("selector"),
                )
            return
        store.claims.subscribe(self.session_id, queue.name, known)
        if known is None:
            self._heard_of[queue.name] = queue
            self._beat()
            self._wait()

    def _wait(self) -> None:
        """Register as idle if it can take something, or let others be told what it cannot take."""
        if self._hints is None or self._browses:
            return
        if self.can_take:
            self._hints.wait(self._heard_of, self.priority, self._could_find)
        else:
            self._hints.hand_on()

    def _could_find(self) -> bool:
        """Whether something is ready that it selects."""
        selector = self._options.get("selector")
        entries = (entry for queue in self._heard_of.values() for entry in queue.browse())
        return any(selector is None or selector.matches(entry.message) for entry in entries)

    def hush(self) -> None:
        """Hear nothing any more."""
        if self._hints is not None:
            self._hints.close()

    def _beat(self) -> None:
        """Say in a heartbeat what it can take, if that has changed; read the queues again, as workers do."""
        free, held = self.credit.free, len(self.held)
        stopping = self.retired or self.paused or free == 0
        selector = self._options.get("selector")
        told = tuple(
            ConsumerInfo(
                queue_name=name,
                priority=self.priority,
                state="stopping" if stopping else "interested",
                credit_limit=0 if free is None else free + held,
                selector="" if selector is None else selector.text,
            )
            for name in self._heard_of
        )
        if told == self._told or self.departed:
            return
        self._told = told
        heartbeat = Heartbeat(deadline_seconds=DEADLINE_SECONDS, consumers=told, queues=tuple(self._heard_of))
        next(iter(self._heard_of.values())).site.store.sessions.renew(self.session_id, heartbeat)
        for queue in self._heard_of.values():
            queue.record()

    def _new_consumer(self, **options: Any) -> Consumer:
        if self._target is None:
            return Consumer(self.name, self.credit, **options)
        return self._target.consumer(self.name, **options)

    @property
    def unsettled(self) -> list[StoredEntry]:
        """What it holds, and what it was shown."""
        return [*self.held.values(), *self._looking_at]

    @property
    def can_take(self) -> bool:
        """Whether a worker would claim for it."""
        return (
            not self.departed
            and not self.retired
            and (bool(self._served) or (not self.paused and self.credit.is_open))
        )

    def claim(self, queues: dict[str, StoredQueue], now: float) -> StoredEntry | None:
        """The next message of these queues that has not expired; None if there is none for it."""
        while self.can_take:
            site = next(iter(queues.values())).site
            site.move_clock(now)
            if self._browses:
                return self._browse(queues)
            found = self._claimed(site, queues)
            if self._hints is not None:
                self._hints.found(something=bool(found))
            if not found:
                self._wait()
                self._close_at_the_end()
                return None
            if not found[0].expired:
                return self._hold(queues[found[0].queue_name], found[0])
            self._settle_at_once(queues[found[0].queue_name], found[0], Verdict.EXPIRE)
        return None

    def _browse(self, queues: dict[str, StoredQueue]) -> StoredEntry | None:
        for name, queue in queues.items():
            if (shown := self._browsers[name].next()) is not None:
                entry = queue.shown_entry(shown)
                self._take(entry)
                self._looking_at.append(entry)
                return entry
        self._close_at_the_end()
        return None

    def _close_at_the_end(self) -> None:
        if self._options.get("auto_close") and not self._served:
            self.retired = True
            self._options["closed"](self)

    def _claimed(self, site: Site, queues: dict[str, StoredQueue]) -> list[Claimed]:
        names, consumer = tuple(queues), None if not self._served else next(iter(self._served.values()))
        selector = None if self._served else self._options.get("selector")
        wanted = {} if selector is None else dict.fromkeys(queues, (Wanted(selector, 1),))
        request = ClaimRequest(
            queues=names, credit=1, in_order=frozenset(queues), consumer=consumer, wanted=wanted
        )
        if self._served and self._target is not None:
            request = replace(request, queues=(), consumer=self._target)
        # A message that is held in its place is passed until maintenance has seen that it is due.
        promote = not self._has_claimed or not any(queue.rules.hold for queue in queues.values())
        self._has_claimed = True
        request = replace(request, promote=promote, byte_credit=self._byte_credit(queues))
        return site.store.claims.claim(self.session_id, request).claimed

    def _byte_credit(self, queues: Iterable[str]) -> dict[str, ByteCredit]:
        credit, held = self.credit, self._spent_bytes
        most = None if isinstance(credit, OverdraftCredit) else getattr(credit, "size_bytes", None)
        if self._served or most is None:
            return {}
        if isinstance(credit, WindowCredit):
            held = credit.outstanding_bytes
        else:
            most += held
        return dict.fromkeys(queues, ByteCredit(most, held))

    def _take(self, entry: StoredEntry) -> None:
        if not self.credit.take(entry.message.size):
            raise UnfitError("the first message always passes a worker's credit of bytes")
        self._spent_bytes += entry.message.size

    def _hold(self, queue: StoredQueue, claimed: Claimed) -> StoredEntry:
        entry = queue.entry_of(claimed)
        if not self._served:
            self._take(entry)
        if not self.auto_accept:
            self.held[claimed.id] = entry
        elif not self._served:
            self._settle_at_once(queue, claimed, Verdict.ACCEPT)
            self.credit.give_back(entry.message.size)
        self._beat()
        return entry

    def decline(self, queue: StoredQueue, entry: StoredEntry) -> bool:
        """Give back for the others what is not for this consumer; False if it had lost it."""
        claimed = entry.receipt
        if claimed is None or self.held.get(claimed.id) is not entry:
            return False
        self._let_go(entry)
        settlement = Settlement(claimed.id, claimed.claim, Verdict.DECLINE)
        return not queue.site.store.settlements.settle(self.session_id, [settlement])

    def _settle_at_once(self, queue: StoredQueue, claimed: Claimed, verdict: Verdict) -> None:
        queue.site.store.settlements.settle(self.session_id, [Settlement(claimed.id, claimed.claim, verdict)])

    def settle(self, queue: StoredQueue, entry: StoredEntry, error: BaseException | None) -> Settlement | None:
        """Settle as a worker does after its handler raised this, or nothing; None if it had lost it."""
        claimed = entry.receipt
        if entry in self._looking_at:
            self._looking_at.remove(entry)
            self.credit.give_back(entry.message.size)
        if claimed is None or self.held.get(claimed.id) is not entry:
            return None
        settlement = judged(claimed, queue.record(), error)
        self._let_go(entry)
        void = queue.site.store.settlements.settle(self.session_id, [settlement])
        return None if void else settlement

    def _let_go(self, entry: StoredEntry) -> None:
        assert entry.receipt is not None
        del self.held[entry.receipt.id]
        if not self._served:
            self.credit.give_back(entry.message.size)
        self._beat()

    def begin_settle(self, queue: StoredQueue, entry: StoredEntry) -> bool:
        """Begin to handle what it was sent; False if it had lost it."""
        claimed = entry.receipt
        if claimed is None or self.held.get(claimed.id) is not entry:
            return False
        if not queue.site.store.features.serves_consumers:
            return True  # nothing takes it back
        return not queue.site.store.settlements.begin_settle(self.session_id, [(claimed.id, claimed.claim)])

    def settled(self, entry: StoredEntry) -> None:
        """What it held was settled by another hand."""
        if entry.receipt is not None and self.held.get(entry.receipt.id) is entry:
            self._let_go(entry)

    def retire(self, queue: StoredQueue) -> None:
        """Claim no more, and keep what it holds."""
        self.retired = self.paused = True
        self.subscribe(queue)

    def close(self, site: Site) -> None:
        """Close the session: what it holds goes back, uncounted, but for what open transactions have settled."""
        if self.in_transactions:
            self.retired = True
            for entry in [each for each in self.held.values() if each not in self.in_transactions]:
                entry.queue.release(entry, self)
            return
        self._depart()
        site.store.sessions.close(self.session_id)

    def transaction_ended(self, entry: StoredEntry) -> None:
        """Close the session, if it waited for this."""
        self.in_transactions.remove(entry)
        if self.retired and not self.in_transactions:
            self.close(entry.queue.site)

    def lose(self, site: Site) -> None:
        """Die: the deadline passes, and another session reaps this one."""
        if self.in_transactions and site.store.features.durable:
            raise UnfitError("the transactions of a worker that dies are rolled back")
        self._depart()
        site.store.sessions.renew(self.session_id, Heartbeat(deadline_seconds=-1.0))
        site.store.sessions.reap()

    def _depart(self) -> None:
        self.departed = True
        self.hush()
        self._looking_at.clear()
        for entry in self.unsettled:
            self._let_go(entry)


def judged(claimed: Claimed, policy: QueueRecord, error: BaseException | None) -> Settlement:
    """The settlement of an attempt that ended like this."""
    handler = Handler(queue=claimed.queue_name, function=print, credit=1, time_limit_seconds=None)
    attempt = Delivery(claimed, handler, policy)
    attempt.error = error
    return attempt.judge()


#: What a handler raises for each of the engine's verdicts.
ERRORS: dict[str, Callable[[], BaseException | None]] = {
    "accept": lambda: None,
    "release": Release,
    "fail": partial(RuntimeError, "failed"),
    "reject": partial(Reject, "rejected"),
}


class StoredTarget:
    """One consumer of several queues: a session that claims from all of them."""

    def __init__(self, credit: Credit, *, name: str, wake: Callable[[Any], None], **_: Any) -> None:
        #: For stores that serve consumers; the others read several queues by one session.
        self._target = Target(credit, wake=wake, name=name)
        self._wake = wake
        self.credit = credit
        self.name = name
        self._queues: dict[str, StoredQueue] = {}
        self._paused = False
        self._consumer: StoredConsumer | None = None

    @property
    def consumers(self) -> tuple[StoredConsumer, ...]:
        """Its one consumer."""
        return () if self._consumer is None else (self._consumer,)

    def subscribe(self, queue: StoredQueue, **options: Any) -> None:
        """Read a queue, too."""
        if self._consumer is None:
            options.pop("name")
            self._consumer = StoredConsumer(
                self.name, self.credit, target=self._target, wake=self._wake, **options
            )
            self._consumer.paused = self._paused
        self._queues[queue.name] = queue
        queue.add_consumer(self._consumer)

    def pull(self, now: float) -> tuple[StoredConsumer, StoredEntry] | None:
        """Claim one message of any of its queues."""
        if self._consumer is None:
            return None
        self._queues = {name: queue for name, queue in self._queues.items() if not queue.deleted}
        entry = self._consumer.claim(self._queues, now) if self._queues else None
        if entry is None:
            return None
        # As a worker does: queues of equal heads take turns, the one served last comes last.
        names = list(self._queues)
        after = names.index(entry.queue.name) + 1
        self._queues = {name: self._queues[name] for name in names[after:] + names[:after]}
        return self._consumer, entry

    def pause(self) -> None:
        """Want nothing."""
        self._set_paused(True)

    def resume(self) -> None:
        """Want something again."""
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        self._paused = self._target.paused = paused
        for consumer in self.consumers:
            consumer.paused = paused
        self.credit_changed()

    def credit_changed(self) -> None:
        """Tell the queues."""
        for queue in self._queues.values():
            for consumer in self.consumers:
                queue.refresh(consumer)

    def close(self) -> None:
        """Close the session."""
        for consumer in self.consumers:
            for queue in self._queues.values():
                queue.forget_consumer(consumer)
            if not consumer.departed and consumer.queue is not None:
                consumer.close(consumer.queue.site)
        for queue in self._queues.values():
            queue.look_again()
