"""One queue and its model, and everything that can be done to both."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from django_mq.engine.decisions.credit import WindowCredit
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.states import State
from django_mq.errors import QueueFull
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.consumers.consumer import Consumer, Interest
from django_mq.inprocess.consumers.groups import AssignedGroups, SharedGroups
from django_mq.inprocess.rules import Rules
from tests.engine.builders import message
from tests.inprocess.builders import names
from tests.inprocess.properties.model import CLAIMED, END, LINE, Item, Kind, Model, Seat

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.message import Message
    from django_mq.engine.states import Fate
    from django_mq.inprocess.entries.entry import Entry

DELAYS = st.sampled_from([None, None, None, -1, 1, 2, 5])
WHICH = st.integers(0, 30)
ACTS = ["remove", "discard", "deliver_now", "cancel", "redrive", "redrive", "move", "begin_settle"]
WINDOWS = [(0, 1000), (1, 1000), (1, 10), (2, 20), (3, 10), (4, 1000), (9, 20)]
TRAITS = st.fixed_dictionaries(
    {
        "priority": st.integers(0, 9),
        "size": st.integers(0, 15),
        "delay": DELAYS,
        "lifetime": st.integers(0, 5),
        "color": st.sampled_from(["red", "red", "blue"]),
        "group": st.sampled_from([None, "a", "b"]),
        "key": st.sampled_from([None, "x", "y", "z"]),
    }
)
CAUSES = ("enqueued", "enqueued_bytes", "dequeued", "dequeued_bytes", "accepted", "expired", "killed", "replaced")
#: States in which an expired item is removed.
EXPIRING: Final = (State.READY, State.HELD, State.STEALABLE)


def rules_of(kind: Kind) -> Rules:
    """The same rules in the engine's words."""
    groups: dict[str | None, Any] = {
        None: None,
        "assigned": partial(AssignedGroups, "group"),
        "shared": partial(SharedGroups, "group"),
    }
    return Rules(
        kind=kind.order,
        key="key" if kind.order in ("sorted", "last_value") else None,
        levels=4,
        due_first=kind.due_first,
        hold=kind.hold,
        max_attempts=kind.max_attempts,
        dead_letter_queue="dead" if kind.dead_letters else None,
        expiry_queue="dead" if kind.expiry_queue else None,
        overflow=Overflow.RING if kind.ring else Overflow.REJECT if kind.reject else Overflow.NONE,
        limits=Limits(messages=kind.ring or kind.reject),
        groups=groups[kind.groups],
        max_live=kind.max_live,
    )


class QueueMachine(RuleBasedStateMachine):
    """Does anything in any order, and compares."""

    kind: ClassVar[Kind]
    #: The consumers: name, messages, bytes, and what else a consumer is told.
    consumers: ClassVar[list[tuple[str, int, int, dict[str, Any]]]] = [
        ("one", 1, 1000, {}),
        ("bytes", 3, 20, {}),
        ("any", 100, 1000, {}),
    ]
    lifetimes: ClassVar[list[int | None]] = [None]

    @initialize()
    def begin(self) -> None:
        self.broker = Broker()
        self.dead = self.broker.declare("dead")
        self.other = self.broker.declare("other")
        self.queue = self.broker.declare("queue", rules_of(self.kind))
        self.model = Model(self.kind)
        self.published = 0
        self.elsewhere: list[str] = []
        self.claims: list[tuple[Seat, Item, int]] = []
        self.everybody = [self.sit(*each) for each in self.consumers]

    def sit(self, name: str, messages: int, size_bytes: int, options: dict[str, Any]) -> Seat:
        consumer = Consumer(name, WindowCredit(messages, size_bytes), wake=self.woken, **options)
        seat = Seat(consumer, (messages, size_bytes))
        self.model.joined(seat)
        self.queue.add_consumer(consumer)
        return seat

    def woken(self, consumer: Consumer) -> None:
        seats = {seat.consumer: seat for seat in self.model.seats}
        seats[consumer].must_pull = True

    @property
    def now(self) -> float:
        return self.model.now

    # Publishing.

    @rule(several=st.lists(TRAITS, min_size=2, max_size=5))
    def publish_several(self, several: list[dict[str, Any]]) -> None:
        for traits in several:
            self.publish_one(traits, immediate=False)

    @rule(traits=TRAITS, immediate=st.sampled_from([False, False, False, True]))
    def publish(self, traits: dict[str, Any], immediate: bool) -> None:
        self.publish_one(traits, immediate=immediate)

    def publish_one(self, traits: dict[str, Any], *, immediate: bool) -> None:
        new = self.message(**traits)
        if self.kind.reject is not None and len(self.model.items) >= self.kind.reject:
            self.refused(new)
        elif immediate:
            self.publish_immediate(new)
        else:
            entry = self.queue.publish(new, self.now)
            item = self.model.arrive(new)
            item.entry = entry
            self.model.evict(item)

    def message(
        self, *, priority: int, size: int, delay: int | None, lifetime: int, **headers: str | None
    ) -> Message:
        self.published += 1
        seconds = self.lifetimes[lifetime % len(self.lifetimes)]
        return message(
            f"m{self.published}",
            priority=priority,
            size=size,
            headers={name: value for name, value in headers.items() if value is not None},
            deliver_at=None if delay is None else self.now + delay,
            expires_at=None if seconds is None else self.now + seconds,
        )

    def refused(self, new: Message) -> None:
        try:
            self.queue.publish(new, self.now)
        except QueueFull:
            return
        raise AssertionError("a full queue took a message")

    def publish_immediate(self, new: Message) -> None:
        item = self.model.arrive(new)
        eligible = [seat for seat in self.model.seats if not seat.browser and self.model.due_to(seat) is item]
        item.entry = self.queue.publish(new, self.now, immediate=True)
        if not eligible:
            assert item.entry.state is State.GONE
            self.model.gone(item, "moved")
            return
        assert item.entry.owner in [seat.consumer for seat in eligible]
        [seat] = [seat for seat in eligible if seat.consumer is item.entry.owner]
        self.model.claimed(seat, item, item.entry.claim_number)
        seat.reserved.append(item)
        # The search for a taker may find some in line, and so make room; what is lent may make room itself.
        # What the search did not pass makes room as any other, even if its time is over.
        if self.queue.statistics.expired > self.model.counters["expired"]:
            self.find_expired(State.READY, State.HELD)
        self.model.evict(item)

    # Delivering.

    @rule(which=WHICH)
    def deliver(self, which: int) -> None:
        self.pull(self.everybody[which % len(self.everybody)])

    def pull(self, seat: Seat) -> Entry | None:
        if seat.reserved:
            return self.hand_over_reserved(seat)
        if not seat.here:
            assert self.queue.deliver(seat.consumer, self.now) is None
            self.queue.promote(self.now)  # whether a stranger's pull does so is not promised
            self.queue.due.unhold(self.now)
            self.model.promote()
            self.model.unhold()
            return None
        self.model.promote()
        self.model.unhold(seat)
        if seat.browser:
            return self.show(seat)
        expected = self.model.due_to(seat)
        entry = self.queue.deliver(seat.consumer, self.now)
        assert (entry and entry.message.id) == (expected and expected.message.id)
        seat.must_pull = entry is not None
        if self.kind.hold:
            self.model.passed[seat] = END if expected is None else self.model.key(expected)
        if entry is not None and expected is not None:
            self.take(seat, expected, entry)
        return entry

    def hand_over_reserved(self, seat: Seat) -> Entry | None:
        item = seat.reserved.pop(0)
        entry = self.queue.deliver(seat.consumer, self.now)
        assert entry is item.entry
        assert entry is not None
        self.claims.append((seat, item, entry.claim_number))
        return entry

    def take(self, seat: Seat, item: Item, entry: Entry) -> None:
        assert item.entry is entry
        assert entry.redelivered == item.redelivered
        self.model.claimed(seat, item, entry.claim_number)
        assert entry.attempts == item.attempts
        self.claims.append((seat, item, entry.claim_number))

    def show(self, browser: Seat) -> Entry | None:
        """What it must see next is the first it has not seen; what was given back it need not see."""
        must, may = self.model.unseen(browser, again=False), self.model.unseen(browser, again=True)
        is_owed = self.model.is_owed(browser, asks=True)
        entry = self.queue.deliver(browser.consumer, self.now)
        if self.kind.hold:
            self.model.passed[browser] = END if entry is None else self.model.key(self.item_of(entry))
        browser.must_pull = entry is not None
        if entry is None:
            assert not is_owed
            return None
        item = self.item_of(entry)
        assert item in may
        assert not must or self.model.key(item) <= self.model.key(must[0])
        assert not self.model.paused
        assert self.model.desires(browser)
        assert browser.affords(item)
        browser.seen.add(item)
        browser.outstanding[item] = entry.claim_number
        self.claims.append((browser, item, entry.claim_number))
        return entry

    def item_of(self, entry: Entry) -> Item:
        [item] = [item for item in self.model.items if item.entry is entry]
        return item

    @rule()
    def deliver_next(self) -> None:
        if any(seat.reserved for seat in self.everybody) or self.kind.hold:
            return
        self.model.promote()
        may = {seat: self.model.unseen(seat, again=True) for seat in self.model.seats if seat.browser}
        due = {seat: self.model.due_to(seat, in_turn=True) for seat in self.model.seats if not seat.browser}
        owed = any(self.model.is_owed(seat) for seat in may)
        answer = self.queue.deliver_next(self.now)
        if answer is None:
            assert not any(due.values())
            assert not owed
            for seat in due:
                seat.must_pull = False
            return
        consumer, entry = answer
        [seat] = [seat for seat in self.model.seats if seat.consumer is consumer]
        seat.must_pull = True
        item = self.item_of(entry)
        if seat.browser:
            assert item in may[seat]
            seat.seen.add(item)
            seat.outstanding[item] = entry.claim_number
            self.claims.append((seat, item, entry.claim_number))
            return
        assert due[seat] is item
        self.take(seat, item, entry)

    @rule()
    def everybody_pulls(self) -> None:
        """Let each woken consumer pull until nothing comes, as promised; then none has work left."""
        while pulling := [seat for seat in self.model.seats if seat.must_pull or seat.reserved]:
            while self.pull(pulling[0]) is not None:
                self.after()
            self.find_expired()  # the pull in vain may have found some
        if self.kind.hold:
            return
        for seat in self.model.seats:
            if not seat.browser:
                assert self.model.due_to(seat) is None, f"{seat.name} sleeps, and has work"

    # Settling.

    @rule(
        which=WHICH,
        delay=DELAYS,
        verb=st.sampled_from(["accept", "accept", "release", "decline", "fail", "reject"]),
    )
    def settle_one(self, which: int, delay: int | None, verb: str) -> None:
        if verb in ("release", "fail"):
            getattr(self, verb)(which, delay)
        else:
            getattr(self, verb)(which)

    @rule(verb=st.sampled_from(["accept", "release", "fail"]))
    def settle_all(self, verb: str) -> None:
        for number in range(len(self.claims)):
            getattr(self, verb)(number, *[None] * (verb != "accept"))
        self.claims = []

    def claim(self, which: int) -> tuple[Seat, Item, int] | None:
        return self.claims[which % len(self.claims)] if self.claims else None

    def settle(
        self, which: int, verb: Callable[..., Fate], effect: Callable[[Seat, Item], object], **options: Any
    ) -> None:
        claim = self.claim(which)
        if claim is None:
            return
        seat, item, claim_number = claim
        assert item.entry is not None
        takes_effect = self.model.settle(seat, item, claim_number)
        fate = verb(item.entry, seat.consumer, claim_number, **options)
        assert bool(fate) == takes_effect, (fate, takes_effect)
        if takes_effect:
            effect(seat, item)

    def accept(self, which: int) -> None:
        self.settle(which, self.queue.accept, self.model.accepted)

    def release(self, which: int, delay: int | None) -> None:
        due_at = None if delay is None else self.now + delay

        def effect(seat: Seat, item: Item) -> None:
            item.attempts -= 1
            self.model.returned(seat, item, due_at)

        self.settle(which, self.queue.release, effect, retry_at=due_at)

    def decline(self, which: int) -> None:
        def effect(seat: Seat, item: Item) -> None:
            item.attempts -= 1
            item.declined_by.add(seat.name)
            self.model.returned(seat, item, None)

        self.settle(which, self.queue.decline, effect)

    def fail(self, which: int, delay: int | None) -> None:
        due_at = None if delay is None else self.now + delay

        def effect(seat: Seat, item: Item) -> None:
            if self.kind.max_attempts is not None and item.attempts >= self.kind.max_attempts:
                self.model.died(seat, item)
            else:
                self.model.returned(seat, item, due_at)

        self.settle(which, self.queue.fail, effect, retry_at=due_at, now=self.now)

    def reject(self, which: int) -> None:
        self.settle(which, self.queue.reject, self.model.died, now=self.now)

    def begin_settle(self, which: int) -> None:
        claim = self.claim(which)
        if claim is None:
            return
        seat, item, _ = claim
        assert item.entry is not None
        holds = item in seat.outstanding and item.holder is seat
        assert self.queue.begin_settle(item.entry, seat.consumer) == holds
        if holds:
            item.state = State.CLAIMED

    # Time.

    @rule(seconds=st.sampled_from([1, 2]))
    def wait(self, seconds: int) -> None:
        self.model.now += seconds

    @rule()
    def keep_house(self) -> None:
        self.model.promote()
        self.model.unhold()
        self.queue.keep_house(self.now)
        self.model.swept_at = self.now
        self.after()
        assert not any(item.is_expired(self.now) for item in self.model.in_states(State.READY, State.STEALABLE))

    # Steering.

    @rule(which=WHICH, act=st.sampled_from(ACTS))
    def steer(self, which: int, act: str) -> None:
        getattr(self, act)(which)

    @rule(act=st.sampled_from(["pause", "resume", "resume", "clear", "purge", "retry", "retry"]))
    def steer_all(self, act: str) -> None:
        getattr(self, act)()

    @rule(which=WHICH, priority=st.integers(0, 9))
    def reprioritise(self, which: int, priority: int) -> None:
        self.change_priority(which, priority)

    @rule(
        which=WHICH, act=st.sampled_from(["pause_consumer", "resize", "resize", "leave", "come_back", "come_back"])
    )
    def disturb(self, which: int, act: str) -> None:
        getattr(self, act)(which)

    def pause(self) -> None:
        self.queue.control.pause()
        self.model.paused = True

    def resume(self) -> None:
        self.queue.control.resume()
        self.model.paused = False

    def pause_consumer(self, which: int) -> None:
        seat = self.everybody[which % len(self.everybody)]
        seat.paused = seat.consumer.paused = not seat.paused
        if seat.paused:
            seat.must_pull = False
        self.queue.refresh(seat.consumer)

    def resize(self, which: int) -> None:
        seat = self.everybody[which % len(self.everybody)]
        messages, size_bytes = WINDOWS[which % len(WINDOWS)]
        seat.limits = (messages, size_bytes)
        seat.consumer.credit.resize(messages, size_bytes)
        if not seat.open:
            seat.must_pull = False
        self.queue.refresh(seat.consumer)

    def item(self, which: int, *states: State) -> Item | None:
        items = list(self.model.in_states(*states))
        return items[which % len(items)] if items else None

    def remove(self, which: int) -> None:
        item = self.item(which, *State)
        if item is None:
            return
        assert item.entry is not None
        assert self.queue.control.remove(item.entry)
        holder = item.holder
        self.model.gone(item, "killed")
        if holder is not None:
            del holder.outstanding[item]
            self.model.gave_up(holder, item)
        for seat in self.everybody:
            seat.reserved = [each for each in seat.reserved if each is not item]

    def discard(self, which: int) -> None:
        item = self.item(which, *State)
        if item is None:
            return
        assert item.entry is not None
        removed = self.queue.control.discard(item.entry)
        assert removed == (item.state is not State.CLAIMED)
        self.discarded(item)

    def discarded(self, item: Item) -> None:
        if item.state is State.CLAIMED:
            item.doomed = True
        else:
            self.model.take_away(item, "killed")

    def clear(self) -> None:
        expected = sum(item.state is not State.CLAIMED for item in self.model.items)
        assert self.queue.control.clear() == expected
        for item in list(self.model.items):
            self.discarded(item)

    def purge(self) -> None:
        expected = [item.entry for item in self.model.in_states(*LINE)]
        purged = self.queue.control.purge()
        assert len(purged) == len(expected)
        assert set(purged) == set(expected)
        for item in list(self.model.in_states(*LINE)):
            self.model.gone(item, "killed")

    def deliver_now(self, which: int) -> None:
        item = self.item(which, State.SCHEDULED)
        if item is not None and item.entry is not None:
            assert self.queue.control.deliver_now(item.entry)
            self.model.stand(item)
            self.model.evict(item)

    def cancel(self, which: int) -> None:
        item = self.item(which, State.SCHEDULED)
        if item is not None and item.entry is not None:
            assert self.queue.control.cancel(item.entry)
            self.model.gone(item, "accepted")

    def redrive(self, which: int) -> None:
        item = self.item(which, State.DEAD)
        if item is not None and item.entry is not None:
            assert self.queue.control.redrive(item.entry)
            item.attempts = 0
            item.redelivered = item.entry.redelivered
            self.model.stand(item)
            self.model.evict(item)

    def change_priority(self, which: int, priority: int) -> None:
        item = self.item(which, *LINE)
        if item is None or item.entry is None:
            return
        entry = self.queue.control.change_priority(item.entry, priority, self.now)
        if item.state is not State.READY or item.message.priority == priority:
            assert entry is None
            return
        assert entry is not None
        self.model.gone(item, "moved")
        copy = self.model.arrive(entry.message)
        copy.entry, copy.attempts, copy.redelivered = entry, item.attempts, item.redelivered

    def move(self, which: int) -> None:
        item = self.item(which, *State)
        if item is None or item.entry is None:
            return
        free = item.state not in CLAIMED
        assert self.queue.move(item.entry, self.other, self.now) == free
        if free:
            self.elsewhere.append(item.message.id)
            self.model.gone(item, "moved")

    def retry(self) -> None:
        if self.kind.reject is not None:
            return
        going = list(self.dead.browse())
        assert self.dead.redrive_all(self.now) == len(going)
        for each in going:
            self.model.sent.remove(each.message.id)
            item = self.model.arrive(each.message)
            self.model.evict(item)
        self.link()

    def link(self) -> None:
        known = {entry.arrival: entry for entry in self.queue.entries()}
        for item in self.model.items:
            item.entry = item.entry or known[item.arrival]

    # Coming and going.

    def leave(self, which: int) -> None:
        give_back = which % 3 > 0
        seat = self.everybody[which % len(self.everybody)]
        was_here = seat.here
        held = list(seat.outstanding)
        self.queue.remove_consumer(seat.consumer, give_back=give_back)
        if was_here:
            self.model.left(seat)
        if not give_back:
            held = list(seat.reserved)  # no other consumer could settle what was never handed over
        seat.reserved = []
        for item in held:
            del seat.outstanding[item]
        for item in held:
            if item.holder is seat:
                item.attempts -= 1
                self.model.returned(seat, item, None)

    def come_back(self, which: int) -> None:
        seat = self.everybody[which % len(self.everybody)]
        if not seat.here and not seat.outstanding:
            self.model.joined(seat)
            assert self.queue.add_consumer(seat.consumer)

    # What always holds.

    @invariant()
    def the_queue_is_as_the_model_says(self) -> None:
        self.after()

    def after(self) -> None:
        self.find_expired()
        self.compare_contents()
        self.compare_statistics()
        self.check_credit()
        self.check_wakes()

    def find_expired(self, *states: State) -> None:
        """When an item is found to have expired is the queue's affair; that it has is not."""
        for item in list(self.model.items):
            gone = item.entry is not None and item.entry.state is State.GONE
            if gone and item.is_expired(self.now) and item.state in (states or EXPIRING):
                self.model.expired(item)

    def compare_contents(self) -> None:
        actual = {entry: entry.state for entry in self.queue.entries()}
        assert actual == {item.entry: item.state for item in self.model.items}
        assert names(self.queue.browse()) == [item.message.id for item in self.model.ready()]
        assert sorted(names(self.dead.entries())) == sorted(self.model.sent)
        assert sorted(names(self.other.entries())) == sorted(self.elsewhere)
        for item in self.model.items:
            assert item.entry is not None
            assert item.entry.owner is (None if item.holder is None else item.holder.consumer)

    def compare_statistics(self) -> None:
        statistics, model = self.queue.statistics, self.model
        assert {name: getattr(statistics, name) for name in CAUSES} == {
            name: model.counters[name] for name in CAUSES
        }
        assert statistics.depth == len(model.items)
        assert statistics.depth_bytes == sum(item.message.size for item in model.items)
        assert (statistics.most_depth, statistics.most_depth_bytes) == (
            model.most["depth"],
            model.most["depth_bytes"],
        )
        assert statistics.most_ready == model.most["ready"]
        assert self.queue.counts() == {
            State.SCHEDULED: len(list(model.in_states(State.SCHEDULED))),
            State.READY: len(list(model.in_states(State.READY, State.HELD))),
            State.CLAIMED: len(list(model.in_states(*CLAIMED))),
            State.DEAD: len(list(model.in_states(State.DEAD))),
            State.PARKED: 0,
        }

    def check_credit(self) -> None:
        for seat in self.everybody:
            outstanding = {item.entry: number for item, number in seat.outstanding.items()}
            assert dict(seat.consumer.unsettled) == outstanding
            assert seat.consumer.credit.is_open == seat.open

    def check_wakes(self) -> None:
        """No consumer counts as awake that was not woken, and one is awake if one has work."""
        awake = [seat for seat in self.model.seats if seat.consumer.interest is Interest.NOTIFIED]
        assert all(seat.must_pull for seat in awake)
        if awake:
            return
        for seat in self.model.seats:
            if seat.consumer.interest in (Interest.INTERESTED, Interest.BLOCKED) and not seat.browser:
                has_work = self.model.due_to(seat) is not None and not self.model.is_stuck_at_expired(seat)
                assert not has_work, f"{seat.name} sleeps, and has work"
        for seat in self.model.seats:
            if seat.browser and not seat.must_pull:
                assert not self.model.is_owed(seat), f"{seat.name} sleeps, and has not seen all"
