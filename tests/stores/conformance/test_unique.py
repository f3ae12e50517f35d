"""Unique messages: the second one with a key, in each store."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from django_mq.engine.decisions.unique import Unique, claim_of, debounce
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import DuplicateMessage, QueueFull, UniqueKeyHeld
from django_mq.stores.records import Parked, Settlement
from django_mq.stores.registry import private_store
from tests.stores.builders import a_message, claim, declare, ids, pass_time, settle
from tests.stores.conftest import AS_PUBLISHER, IN_BOTH_WAYS, needs_rows
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import NewMessage

ONCE = Unique(key="a")
BEGINS = Unique(key="a", until="begins")
DROP = Unique(key="a", second="drop")


def unique(rule: Unique = ONCE, queue: str = "orders", *, continues: bool = False, **given: Any) -> NewMessage:
    id_ = uuid4()
    owner = given.pop("owner", str(id_))
    made = claim_of(rule, queue=queue, type_="order", owner=owner, arguments={}, continues=continues)
    return a_message(queue, message_id=id_, unique=made, **given)


def admit(store: Store, *messages: NewMessage) -> list[int]:
    return store.admission.append(messages)


def is_admitted(store: Store, rule: Unique = ONCE, **given: Any) -> bool:
    """Whether the store takes another message with the key."""
    try:
        return admit(store, unique(rule, **given)) != [0]
    except DuplicateMessage:
        return False


def bodies(store: Store, session: int) -> list[Any]:
    return [json.loads(each.body) for each in claim(store, session)]


@IN_BOTH_WAYS
def test_the_second_message_is_refused_dropped_or_replaces_the_first(store: Store, session: int) -> None:
    declare(store)
    held = unique(body=b"1")
    admit(store, held)
    with pytest.raises(DuplicateMessage, match="'a'"):
        admit(store, unique(body=b"2"))
    dropped = unique(DROP, body=b"3")
    assert admit(store, dropped) == [0]
    assert dropped.unique is not None
    assert dropped.unique.first is not None
    assert dropped.unique.first.message_id == held.message_id
    later = unique(
        Unique(key="a", second="replace", replaces=("body", "priority")),
        body=b"4",
        priority=9,
        headers='{"by": "second"}',
    )
    assert admit(store, later) == [0]
    assert later.unique is not None
    assert later.unique.first is not None
    [got] = claim(store, session)
    assert (got.message_id, bytes(got.body), got.priority) == (held.message_id, b"4", 9)
    assert "by" not in json.loads(got.headers)
    # What has begun is not replaced.
    with pytest.raises(DuplicateMessage, match="has begun"):
        admit(store, later)


def test_a_message_that_is_published_again_meets_its_own_key(store: Store) -> None:
    declare(store)
    held = unique(DROP)
    admit(store, held)

    assert admit(store, held) == [0]
    assert [id_ != 0 for id_ in admit(store, held, unique(Unique(key="b")))] == [False, True]


def test_a_key_is_free_when_the_rule_of_its_message_says_so(store: Store, session: int) -> None:
    declare(store)
    admit(store, unique(ONCE))
    [held] = claim(store, session)
    assert not is_admitted(store)
    settle(store, session, held, Verdict.RELEASE, delay_seconds=60.0)
    assert not is_admitted(store)  # it waits for its next attempt
    pass_time(store, 61)
    [held] = claim(store, session)
    settle(store, session, held, Verdict.ACCEPT)
    assert is_admitted(store, BEGINS)
    assert not is_admitted(store, BEGINS)
    claim(store, session)
    assert is_admitted(store, Unique(key="a", until="window", seconds=30.0))
    [held] = claim(store, session)
    settle(store, session, held, Verdict.ACCEPT)
    assert not is_admitted(store)  # the rule of the first one counts
    pass_time(store, 31)
    assert is_admitted(store)


def test_a_dead_letter_has_no_key(store: Store, session: int) -> None:
    declare(store, "dead")
    for queue, options in {"orders": {}, "others": {"dead_letter_queue": "dead"}}.items():
        declare(store, queue, **options)
        admit(store, unique(queue=queue))
        [held] = claim(store, session, queue)
        settle(store, session, held, Verdict.DEAD, reason="failed")
        assert is_admitted(store, queue=queue)


def test_a_run_that_goes_on_after_its_message_keeps_the_key_until_it_ends(store: Store, session: int) -> None:
    declare(store)
    admit(store, unique(told_to="unique"))
    [held] = claim(store, session)
    settle(store, session, held, Verdict.BEGIN, told_to=held.told_to)
    assert not claim(store, session)
    assert not is_admitted(store)
    assert store.unique_keys.prune(10) == 0
    ended = Settlement(held.id, held.claim, Verdict.END, told_to=held.told_to)
    assert not store.settlements.settle(session, [ended])
    assert is_admitted(store)


def test_a_message_that_has_expired_has_no_key(store: Store, session: int) -> None:
    declare(store)
    admit(store, unique(body=b"1", ttl_seconds=1000.0))
    admit(store, unique(Unique(key="b"), body=b"2", ttl_seconds=1000.0, priority=9))
    [running] = claim(store, session, credit=1)
    pass_time(store, 1001)
    assert not is_admitted(store, Unique(key="b"))
    settle(store, session, running, Verdict.ACCEPT)
    assert admit(store, unique(DROP, body=b"3")) != [0]
    assert 3 in bodies(store, session)


def test_a_parked_message_is_replaced_with_its_type(store: Store, session: int) -> None:
    declare(store)
    [row] = admit(store, unique(body=b"1", type="old"))
    assert store.parking.park([Parked(row, "tenant")]) == {row}
    assert admit(store, unique(Unique(key="a", second="replace"), body=b"2", type="new")) == [0]
    assert store.parking.free("orders", "tenant", 1) == 1
    [got] = claim(store, session)
    assert (got.id, bytes(got.body), got.type) == (row, b"2", "new")


def test_keys_count_within_a_queue_or_a_type(store: Store) -> None:
    declare(store)
    declare(store, "others")
    assert is_admitted(store)
    assert is_admitted(store, queue="others")
    within = Unique(key="a", within="type")
    assert is_admitted(store, within)
    assert not is_admitted(store, within, queue="others")


def test_the_time_moves_with_each_message_up_to_the_bound(store: Store, session: int) -> None:
    declare(store)
    rule = debounce(1000, at_most_seconds=2500, key="a")
    for body in (b"1", b"2", b"3"):
        admit(store, unique(rule, body=body))
        assert not bodies(store, session)
        pass_time(store, 800)
    assert not bodies(store, session)  # 2400 seconds after the first one, 800 after the last one
    admit(store, unique(rule, body=b"4"))
    pass_time(store, 200)
    assert bodies(store, session) == [4]  # at the bound
    admit(store, unique(rule, body=b"5"))
    assert not bodies(store, session)


def test_work_that_goes_on_keeps_the_key_and_is_never_refused(store: Store, session: int) -> None:
    declare(store)
    admit(store, unique(owner="task"))
    [held] = claim(store, session)
    assert admit(store, unique(owner="task", continues=True)) != [0]
    settle(store, session, held, Verdict.ACCEPT)
    assert not is_admitted(store)
    assert admit(store, unique(owner="another task", continues=True)) != [0]
    assert len(claim(store, session)) == 2


def test_of_many_messages_the_first_of_each_key_is_written(store: Store, session: int) -> None:
    declare(store)
    many = [a_message(), *[unique(Unique(key=key, second="drop")) for key in "abab"]]
    written = admit(store, *many)
    assert [id_ > 0 for id_ in written] == [True, True, True, False, False]
    assert len(claim(store, session)) == 3
    with pytest.raises(DuplicateMessage):
        admit(store, unique(Unique(key="c")), unique(Unique(key="c")))
    assert is_admitted(store, Unique(key="c"))  # nothing of it was written


@AS_PUBLISHER
def test_a_rollback_frees_the_key(store: Store) -> None:
    declare(store)

    def publish_and_fail() -> None:
        with store.database.transaction():
            admit(store, unique())
            assert not is_admitted(store)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        publish_and_fail()
    assert is_admitted(store)


def test_a_message_that_is_not_written_has_no_key(store: Store) -> None:
    declare(store, max_messages=1, overflow="reject")
    admit(store, a_message())
    with pytest.raises(QueueFull):
        admit(store, unique())
    declare(store, "dropping", max_messages=1, overflow="drop")
    admit(store, a_message("dropping"))
    assert admit(store, unique(queue="dropping")) == [0]
    for queue in ("orders", "dropping"):
        store.operations.cancel(ids(store.browser.arrivals(queue, after=0)))
    assert is_admitted(store)
    assert is_admitted(store, queue="dropping")


def test_maintenance_deletes_the_keys_that_no_message_has(store: Store, session: int) -> None:
    declare(store)
    admit(store, unique())
    admit(store, unique(Unique(key="b", until="window", seconds=60.0)))
    assert store.unique_keys.prune(10) == 0
    for held in claim(store, session):
        settle(store, session, held, Verdict.ACCEPT)
    assert store.unique_keys.prune(10) == 1
    pass_time(store, 61)
    assert store.unique_keys.prune(10) == 1
    assert is_admitted(store)


def test_a_publisher_waits_for_an_open_transaction_with_its_key(store: Store) -> None:
    needs_rows(store)
    if not store.features.concurrent_writers:
        pytest.skip("features.concurrent_writers: a second writer waits for the whole database")
    declare(store)
    impatient = Unique(key="a", wait_seconds=1.0)
    with other_transaction(store) as (rolled_back, done):
        with pytest.raises(UniqueKeyHeld, match="1 seconds"):
            admit(store, unique(impatient))
        rolled_back.set()
        admit(store, unique(ONCE))  # it waits until the other one has ended
        done.wait(PATIENCE_SECONDS)


def test_a_publisher_that_has_met_a_waiting_message_keeps_workers_from_it_until_its_commit(
    store: Store, session: int
) -> None:
    needs_rows(store)
    if not store.features.concurrent_writers:
        pytest.skip("features.concurrent_writers: no worker claims while a transaction writes")
    declare(store)
    admit(store, unique(Unique(key="a", until="begins")))
    publisher = private_store(store.alias)
    try:
        with publisher.database.transaction():
            assert admit(publisher, unique(Unique(key="a", second="drop"))) == [0]
            assert not claim(store, session)
        assert len(claim(store, session)) == 1
        # What runs is left alone: its worker would wait to settle it.
        with publisher.database.transaction():
            assert admit(publisher, unique(Unique(key="a", second="drop"))) != [0]
    finally:
        publisher.close()


class other_transaction:  # noqa: N801 - a context
    """A thread that holds the key ``a`` until it is told to roll back."""

    def __init__(self, store: Store) -> None:
        self.alias = store.alias
        self.has_key, self.roll_back, self.done = threading.Event(), threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        other = private_store(self.alias)
        try:
            with other.database.transaction():
                admit(other, unique())
                self.has_key.set()
                self.roll_back.wait(PATIENCE_SECONDS)
                _ = 1 / 0
        except ZeroDivisionError:
            self.done.set()
        finally:
            other.close()

    def __enter__(self) -> tuple[threading.Event, threading.Event]:
        self.thread.start()
        assert self.has_key.wait(PATIENCE_SECONDS)
        return self.roll_back, self.done

    def __exit__(self, *_: object) -> None:
        self.roll_back.set()
        self.thread.join(PATIENCE_SECONDS)
