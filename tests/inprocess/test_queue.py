from threading import Thread

import pytest

from django_mq.engine.states import State
from django_mq.errors import IllegalMove, OutOfRange
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.entries.lists import FifoList
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import SHARED_TABLE, Rules
from tests.engine.builders import message
from tests.inprocess.builders import drain, entry, names, publish, subscribe


@pytest.fixture
def queue() -> Queue:
    return Queue("q")


@pytest.fixture
def consumer(queue: Queue) -> Consumer:
    return subscribe(queue)


def deliver(queue: Queue, consumer: Consumer, now: float = 0.0) -> Entry:
    entry = queue.deliver(consumer, now)
    assert entry is not None
    return entry


def test_messages_are_delivered_by_priority_then_in_order_of_arrival(queue: Queue, consumer: Consumer) -> None:
    for name, priority in [("a", 1), ("b", 9), ("c", 4), ("d", 9)]:
        publish(queue, name, priority=priority)

    assert drain(queue, consumer) == ["b", "d", "c", "a"]


def test_a_queue_of_one_level_knows_no_priority() -> None:
    queue = Queue(rules=Rules(levels=1))
    publish(queue, "a", priority=0)
    publish(queue, "b", priority=9)

    assert drain(queue, subscribe(queue)) == ["a", "b"]


def test_a_queue_of_no_level_is_refused() -> None:
    with pytest.raises(OutOfRange):
        Queue(rules=Rules(levels=0))


def test_a_queue_stands_in_whatever_order_its_list_keeps() -> None:
    class Newest(FifoList):
        def head(self) -> Entry | None:
            return list(self)[-1] if len(self) else None

    queue = Queue(entries=Newest())
    publish(queue, "a", "b")

    assert drain(queue, subscribe(queue)) == ["b", "a"]


def test_a_higher_priority_overtakes_what_was_given_back(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "low")
    queue.release(deliver(queue, consumer), consumer)

    publish(queue, "high", priority=9)

    assert drain(queue, consumer) == ["high", "low"]


def test_what_is_given_back_in_any_order_retakes_its_place(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "1", "2", "3", "4")
    held = [deliver(queue, consumer) for _ in range(3)]

    for index in (1, 0, 2):
        queue.release(held[index], consumer)

    assert names(queue.browse()) == ["1", "2", "3", "4"]


def test_an_accepted_entry_is_gone(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "m")

    assert queue.accept(deliver(queue, consumer), consumer)

    assert set(queue.counts().values()) == {0}


def test_settling_twice_is_void(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "m")
    held = deliver(queue, consumer)

    assert queue.accept(held, consumer)

    assert not queue.accept(held, consumer)
    assert not queue.release(held, consumer)
    assert queue.counts()[State.READY] == 0


def test_settling_what_somebody_else_holds_is_void(queue: Queue, consumer: Consumer) -> None:
    other = subscribe(queue, "other")
    publish(queue, "m")
    held = deliver(queue, consumer)

    assert not queue.accept(held, other)

    assert queue.counts()[State.CLAIMED] == 1


def test_a_late_settlement_of_an_earlier_delivery_is_void(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "m")
    held = deliver(queue, consumer)
    first = held.claim_number
    queue.release(held, consumer)
    assert deliver(queue, consumer) is held

    assert not queue.accept(held, consumer, first)

    assert queue.accept(held, consumer, held.claim_number)


def test_a_declined_entry_is_left_to_the_others(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "m1", "m2")

    queue.decline(deliver(queue, consumer), consumer)

    assert drain(queue, consumer) == ["m2"]
    assert drain(queue, subscribe(queue, "other")) == ["m1"]


def test_a_failure_without_delay_is_counted_and_delivered_again(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "m")

    queue.fail(deliver(queue, consumer), consumer)

    again = deliver(queue, consumer)
    assert (again.attempts, again.redelivered) == (2, True)


def test_a_delayed_failure_retakes_its_place_when_its_time_comes(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "1", "2")
    queue.fail(deliver(queue, consumer), consumer, retry_at=5.0)
    assert names(queue.browse()) == ["2"]

    queue.promote(5.0)

    assert names(queue.browse()) == ["1", "2"]


def test_a_rejected_entry_is_dead_until_it_is_redriven(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "m")
    held = deliver(queue, consumer)

    queue.reject(held, consumer)
    assert (queue.counts()[State.DEAD], drain(queue, consumer)) == (1, [])

    assert queue.control.redrive(held)
    assert not queue.control.redrive(held)
    assert deliver(queue, consumer).attempts == 1


def test_a_scheduled_message_is_not_delivered_before_its_time(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "m", deliver_at=10.0)

    assert (queue.due.next_due(), queue.counts()[State.SCHEDULED]) == (10.0, 1)
    assert drain(queue, consumer, now=9.999) == []
    assert drain(queue, consumer, now=10.0) == ["m"]
    assert queue.due.next_due() is None


def test_a_delivery_needs_nobody_to_promote_first(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "a", deliver_at=1.0)
    publish(queue, "b", deliver_at=2.0)

    assert drain(queue, consumer, now=3.0) == ["a", "b"]


def test_due_messages_stand_at_the_head_of_their_level_in_due_order(queue: Queue) -> None:
    publish(queue, "now")
    publish(queue, "high", priority=9)
    publish(queue, "later", deliver_at=20.0)
    publish(queue, "soon", deliver_at=10.0)

    for now in (10.0, 20.0):
        queue.promote(now)

    assert names(queue.browse()) == ["high", "soon", "later", "now"]


def test_the_order_of_due_messages_is_the_same_however_late_they_are_noticed() -> None:
    punctual, late = Queue(), Queue()
    for queue in (punctual, late):
        for name, due in [("c", 3.0), ("a", 1.0), ("b", 2.0)]:
            publish(queue, name, deliver_at=due)

    for now in (1.0, 2.0, 3.0):
        punctual.promote(now)
    late.promote(99.0)

    assert names(punctual.browse()) == names(late.browse()) == ["a", "b", "c"]


def test_in_a_queue_that_keeps_places_a_due_message_stands_where_it_arrived() -> None:
    queue = Queue(rules=Rules(due_first=False))
    publish(queue, "1")
    publish(queue, "2", deliver_at=10.0)
    publish(queue, "3")

    queue.promote(10.0)

    assert names(queue.browse()) == ["1", "2", "3"]


def test_a_paused_queue_still_promotes(queue: Queue) -> None:
    publish(queue, "m", deliver_at=1.0)
    queue.control.pause()

    assert names(queue.promote(1.0)) == ["m"]
    assert queue.counts()[State.READY] == 1


def test_an_expired_message_is_never_delivered_and_is_reported_once(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "short", expires_at=5.0)
    publish(queue, "long", expires_at=50.0)

    assert drain(queue, consumer, now=5.0) == ["long"]
    assert (names(queue.expire(5.0)), queue.expire(5.0)) == (["short"], [])


def test_a_claimed_message_expires_only_when_it_is_given_back(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "m", expires_at=5.0)
    held = deliver(queue, consumer)
    assert queue.expire(6.0) == []

    queue.release(held, consumer)

    assert drain(queue, consumer, now=6.0) == []
    assert names(queue.expire(6.0)) == ["m"]


def test_a_scheduled_message_whose_worth_has_passed_expires_when_it_is_due(
    queue: Queue, consumer: Consumer
) -> None:
    publish(queue, "m", deliver_at=10.0, expires_at=5.0)
    assert queue.expire(7.0) == []

    assert drain(queue, consumer, now=10.0) == []
    assert names(queue.expire(10.0)) == ["m"]


def test_an_entry_claimed_by_a_store_is_offered_and_delivered(queue: Queue, consumer: Consumer) -> None:
    row = entry("row", level=4, arrival=17, receipt="token")

    queue.offer(row)

    assert deliver(queue, consumer).receipt == "token"


def test_arrivals_go_on_after_those_that_were_offered(queue: Queue, consumer: Consumer) -> None:
    queue.offer(entry("reloaded", level=4, arrival=17))

    publish(queue, "new")

    assert drain(queue, consumer) == ["reloaded", "new"]


def test_scheduled_and_dead_entries_can_be_reloaded(queue: Queue) -> None:
    queue.offer(entry(arrival=1, state=State.SCHEDULED, due_at=5.0))
    queue.offer(entry(arrival=2, state=State.DEAD))

    assert (queue.due.next_due(), queue.counts()[State.DEAD]) == (5.0, 1)


@pytest.mark.parametrize("state", [State.CLAIMED, State.GONE])
def test_what_is_claimed_or_gone_cannot_be_offered(queue: Queue, state: State) -> None:
    with pytest.raises(IllegalMove):
        queue.offer(entry(state=state))


def test_a_closed_consumer_gives_back_what_it_held_in_order(queue: Queue) -> None:
    leaving, staying = subscribe(queue, "leaving", messages=3), subscribe(queue, "staying")
    publish(queue, "1", "2", "3", "4")
    drain(queue, leaving)

    assert names(queue.remove_consumer(leaving)) == ["1", "2", "3"]

    assert queue.deliver(leaving, 0.0) is None
    assert drain(queue, staying) == ["1", "2", "3", "4"]


def test_a_consumer_is_added_once_and_removed_once(queue: Queue, consumer: Consumer) -> None:
    assert not queue.add_consumer(consumer)

    assert (queue.remove_consumer(consumer), queue.remove_consumer(consumer)) == ([], [])


def test_a_resized_credit_counts_from_the_refresh_on(queue: Queue) -> None:
    consumer = subscribe(queue, messages=1)
    publish(queue, "1", "2", "3")
    assert drain(queue, consumer) == ["1"]

    consumer.credit.resize(2, None)
    queue.refresh(consumer)

    assert drain(queue, consumer) == ["2"]


@pytest.mark.parametrize("state", [State.READY, State.SCHEDULED, State.CLAIMED, State.DEAD])
def test_an_entry_can_be_removed_in_any_state_but_once(queue: Queue, state: State) -> None:
    consumer = subscribe(queue, messages=1)
    (each,) = publish(queue, "m", deliver_at=9.0 if state is State.SCHEDULED else None, expires_at=99.0)
    if state in {State.CLAIMED, State.DEAD}:
        queue.deliver(consumer, 0.0)
    if state is State.DEAD:
        queue.reject(each, consumer)
    assert queue.counts()[state] == 1

    assert [queue.control.remove(each), queue.control.remove(each)] == [True, False]

    assert set(queue.counts().values()) == {0}
    assert (each.state, consumer.credit.free, queue.expire(100.0)) == (State.GONE, 1, [])


def test_a_settlement_of_what_was_removed_is_void(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "m")
    held = deliver(queue, consumer)
    queue.control.remove(held)

    assert not queue.accept(held, consumer)


def test_an_entry_of_another_queue_is_not_removed(queue: Queue) -> None:
    other = Queue("other")
    claimed, ready = publish(other, "claimed", "ready")
    other.deliver(subscribe(other, messages=1), 0.0)

    assert [queue.control.remove(ready), queue.control.remove(claimed)] == [False, False]

    assert (ready.state, claimed.state) == (State.READY, State.CLAIMED)


def test_a_purge_takes_what_is_undelivered_and_leaves_what_is_held(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "held", "ready")
    publish(queue, "scheduled", deliver_at=9.0)
    deliver(queue, consumer)

    assert names(queue.control.purge()) == ["ready", "scheduled"]

    assert {state for state, number in queue.counts().items() if number} == {State.CLAIMED}


def test_a_purge_can_be_told_what_to_take(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "dead", "ready")
    queue.reject(deliver(queue, consumer), consumer)

    assert names(queue.control.purge([State.DEAD])) == ["dead"]
    assert queue.counts()[State.READY] == 1


def test_browsing_takes_nothing_and_bears_changes_meanwhile(queue: Queue, consumer: Consumer) -> None:
    publish(queue, "1", "2", "3")
    browse = queue.browse()

    assert next(browse).message.id == "1"
    assert [deliver(queue, consumer).message.id for _ in range(2)] == ["1", "2"]
    publish(queue, "4")

    assert names(browse) == ["3", "4"]
    assert queue.counts()[State.READY] == 2


def test_no_message_is_lost_or_doubled_between_threads(queue: Queue) -> None:
    accepted: list[str] = []

    def consume(consumer: Consumer) -> None:
        for turn in range(400):
            held = queue.deliver(consumer, 0.0)
            if held is None:
                continue
            if turn % 3:
                accepted.append(held.message.id)
                assert queue.accept(held, consumer)
            else:
                assert queue.release(held, consumer)

    def produce(name: str) -> None:
        for number in range(100):
            queue.publish(message(f"{name}{number}", priority=number % 10), 0.0)

    consumers = [subscribe(queue, name, messages=2) for name in "ab"]
    threads = [Thread(target=produce, args=(name,)) for name in "xy"]
    threads += [Thread(target=consume, args=(consumer,)) for consumer in consumers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    accepted += drain(queue, subscribe(queue, "last"))

    assert sorted(accepted) == sorted(f"{name}{number}" for name in "xy" for number in range(100))


def test_a_value_that_becomes_due_replaces_an_older_one_that_is_due_at_the_same_look() -> None:
    queue = Queue(rules=Rules(kind="last_value", key="key"), policy=SHARED_TABLE)
    consumer = subscribe(queue)
    queue.publish(message("older", headers={"key": "x"}), 0.0)
    older = queue.deliver(consumer, 0.0)
    assert older is not None
    queue.publish(message("newer", headers={"key": "x"}, deliver_at=4.0), 0.0)
    queue.release(older, consumer, retry_at=5.0)

    queue.promote(6.0)

    assert names(queue.contents.everything()) == ["newer"]
    assert (queue.statistics.depth, queue.statistics.replaced) == (1, 1)
