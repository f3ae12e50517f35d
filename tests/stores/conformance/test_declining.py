"""Messages that a session declines: for the others, and dead when no session is left that may have them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions.selection import Wanted, selections_of
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.selector import Selector
from django_mq.engine.states import State
from django_mq.stores.records import ClaimRequest, ConsumerInfo, Heartbeat, SessionInfo
from django_mq.stores.sql import settlements
from tests.stores.builders import (
    a_message,
    claim,
    declare,
    ids,
    look,
    lose_worker,
    pass_time,
    publish,
    settle,
    verdict,
)

if TYPE_CHECKING:
    from django_mq.stores.base import Store

GRACE_SECONDS = 300.0
DECLINED = "declined by all consumers"


def open_session(store: Store, name: str = "worker", *queues: str) -> int:
    """Open a session that lives for ever, and consumes these queues (``orders`` if none is named)."""
    info = SessionInfo(name=name, kind="native", host="host", pid=1, version="1", queues=queues or ("orders",))
    return store.sessions.open(info, deadline_seconds=1e6)


@pytest.fixture
def session(store: Store, orders: str) -> int:
    return open_session(store)


@pytest.fixture
def other(store: Store, orders: str) -> int:
    return open_session(store, "other")


def decline(store: Store, session: int, *queues: str, credit: int = 100) -> list[int]:
    """Claim, and decline what was claimed."""
    claimed = claim(store, session, *queues, credit=credit)
    store.settlements.settle(session, [verdict(message, Verdict.DECLINE) for message in claimed])
    return ids(claimed)


def dead(store: Store, queue: str = "orders") -> list[tuple[int, str]]:
    found = store.browser.browse(queue, states=[State.DEAD])
    return [(message.id, message.dead_reason) for message in found]


def wait_out(store: Store) -> int:
    """Let the grace period pass between two rounds of maintenance."""
    store.maintenance.bury_unwanted()
    pass_time(store, GRACE_SECONDS)
    return store.maintenance.bury_unwanted()


# For the others


def test_what_a_session_has_declined_it_does_not_get_later_either(
    store: Store, session: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlements, "COMMIT_SECONDS", 0.0)
    publish(store)
    decline(store, session)

    assert [claim(store, session) for _ in range(3)] == [[], [], []]


def test_what_a_session_declines_is_for_others(store: Store, session: int, other: int) -> None:
    published = [publish(store) for _ in range(2)]
    [first] = claim(store, session, credit=1)

    assert settle(store, session, first, Verdict.DECLINE) == frozenset()
    assert ids(claim(store, session)) == published[1:]
    [again] = claim(store, other)
    assert (again.id, again.attempts, again.redelivered) == (first.id, 0, True)


def test_a_declined_message_keeps_its_place(store: Store, session: int, other: int) -> None:
    published = [publish(store) for _ in range(3)]

    decline(store, session, credit=2)

    assert ids(claim(store, other)) == published


def test_a_claim_passes_many_declined_messages(store: Store, session: int) -> None:
    declined = store.publications.append_many([a_message() for _ in range(250)])
    assert decline(store, session, credit=1000) == declined
    last = publish(store)

    result = look(store, session, credit=1)

    assert (ids(result.claimed), result.declined) == ([last], True)


def test_a_claim_of_several_queues_passes_what_the_session_has_declined(store: Store, session: int) -> None:
    declare(store, "letters")
    publish(store)
    decline(store, session)
    later, letter = publish(store), publish(store, "letters")

    assert sorted(ids(claim(store, session, "orders", "letters"))) == [later, letter]


def test_a_claim_by_selectors_passes_what_the_session_has_declined(store: Store, session: int) -> None:
    published = [publish(store, headers=f'{{"size": {size}}}') for size in (1, 9, 1)]
    wanted = {"orders": [Wanted(Selector("size > 5"), 10), Wanted(Selector("size < 5"), 10)]}
    [first, _, last] = claim(store, session, wanted=wanted)
    store.settlements.settle(session, [verdict(first, Verdict.DECLINE), verdict(last, Verdict.RELEASE)])

    assert ids(claim(store, session, wanted=wanted)) == published[2:]


def test_declining_goes_with_a_claim(store: Store, session: int) -> None:
    first, second = publish(store), publish(store)
    [held] = claim(store, session, credit=1)

    request = ClaimRequest(queues=("orders",), credit=5)
    result = store.claims.settle_and_claim(session, [verdict(held, Verdict.DECLINE)], request)

    assert (held.id, ids(result.claimed), result.void) == (first, [second], frozenset())


def test_a_suspect_that_is_declined_has_no_attempt(store: Store, session: int, other: int) -> None:
    publish(store)
    [held] = claim(store, session)
    store.sessions.renew(session, Heartbeat(deadline_seconds=1.0))
    lose_worker(store, session)

    decline(store, other)
    [again] = claim(store, open_session(store, "third"))

    assert (again.id, again.attempts, again.suspect) == (held.id, 0, True)


def test_a_worker_that_starts_again_is_given_what_it_had_declined(store: Store, session: int) -> None:
    [message] = [publish(store)]
    decline(store, session)
    store.sessions.close(session)

    assert ids(claim(store, open_session(store, "new"))) == [message]


def test_a_moved_message_is_new_to_all(store: Store, session: int) -> None:
    declare(store, "letters")
    message = publish(store)
    decline(store, session)

    for queue in ("letters", "orders"):
        [message] = [found.id for found in store.browser.browse("orders", states=[State.READY])] or [message]
        assert len(store.operations.move([message], queue)) == 1
        [message] = [found.id for found in store.browser.browse(queue, states=[State.READY])]

    assert ids(claim(store, session)) == [message]


def test_a_declined_message_is_declined_once(store: Store, session: int) -> None:
    publish(store)
    [held] = claim(store, session)
    settle(store, session, held, Verdict.DECLINE)

    assert settle(store, session, held, Verdict.DECLINE) == {held.id}


def test_a_better_session_leaves_what_it_has_declined(store: Store, session: int, other: int) -> None:
    for one, priority in ((session, 1), (other, 0)):
        told = (ConsumerInfo(queue_name="orders", priority=priority, credit_limit=10),)
        store.sessions.renew(one, Heartbeat(deadline_seconds=1e6, consumers=told))
    store.queues.find("orders")
    message = publish(store)
    assert claim(store, other) == []

    decline(store, session)

    assert ids(claim(store, other)) == [message]


def test_the_owner_of_a_group_passes_what_it_has_declined(store: Store, session: int) -> None:
    declare(store, "grouped", grouping="assigned")
    first, second = (publish(store, "grouped", group_key="a") for _ in range(2))

    assert decline(store, session, "grouped", credit=1) == [first]
    assert ids(claim(store, session, "grouped")) == [second]


# Dead


def test_a_message_that_all_have_declined_is_dead_after_the_grace_period(
    store: Store, session: int, other: int
) -> None:
    message = publish(store)
    decline(store, session)
    decline(store, other)
    store.maintenance.bury_unwanted()
    pass_time(store, GRACE_SECONDS - 1)

    assert (store.maintenance.bury_unwanted(), dead(store)) == (0, [])
    pass_time(store, 2)
    assert (store.maintenance.bury_unwanted(), dead(store)) == (1, [(message, DECLINED)])


def test_a_message_that_one_has_not_declined_waits_for_it(store: Store, session: int, other: int) -> None:
    message = publish(store)
    decline(store, session)

    assert (wait_out(store), ids(claim(store, other))) == (0, [message])


def test_a_message_that_is_claimed_again_is_not_dead(store: Store, session: int, other: int) -> None:
    publish(store)
    decline(store, session)
    [held] = claim(store, other)
    store.sessions.close(other)

    assert wait_out(store) == 1
    assert settle(store, other, held, Verdict.ACCEPT) == {held.id}


def test_a_session_that_ends_begins_the_grace_period_anew(store: Store, session: int, other: int) -> None:
    """A deployment: the worker that has not declined ends long after the other one declined."""
    message = publish(store)
    decline(store, session)
    assert wait_out(store) == 0

    store.sessions.close(other)
    pass_time(store, GRACE_SECONDS)

    assert store.maintenance.bury_unwanted() == 0
    assert ids(claim(store, open_session(store, "new version"))) == [message]


def test_a_session_that_comes_begins_the_grace_period_anew(store: Store, session: int) -> None:
    message = publish(store)
    decline(store, session)
    store.maintenance.bury_unwanted()
    pass_time(store, GRACE_SECONDS)
    new = open_session(store, "new version")

    assert store.maintenance.bury_unwanted() == 0
    assert decline(store, new) == [message]
    assert wait_out(store) == 1


def test_a_consumer_that_does_not_want_the_message_does_not_keep_it(
    store: Store, session: int, other: int
) -> None:
    told = ConsumerInfo(queue_name="orders", selector="size > 5")
    store.sessions.renew(other, Heartbeat(deadline_seconds=1e6, consumers=(told,)))
    message, large = publish(store, headers='{"size": 1}'), publish(store, headers='{"size": 9}')
    decline(store, session)

    assert (wait_out(store), dead(store)) == (1, [(message, DECLINED)])
    assert ids(claim(store, other)) == [large]


def test_a_message_waits_for_a_consumer_that_wants_it(store: Store, session: int, other: int) -> None:
    declined = publish(store, headers='{"size": 1}')
    decline(store, session)
    store.sessions.close(session)
    told = ConsumerInfo(queue_name="orders", selector="size > 5")
    store.sessions.renew(other, Heartbeat(deadline_seconds=1e6, consumers=(told,)))

    assert wait_out(store) == 0
    assert [found.id for found in store.browser.browse("orders", states=[State.READY])] == [declined]


@pytest.mark.parametrize(
    ("others", "headers", "is_dead"),
    [
        pytest.param(["size > 5"], {"size": 9}, True, id="another worker of the process has it"),
        pytest.param(["size > 5"], {"size": 1}, False, id="no selector matches"),
        pytest.param(["size > 5"], {}, False, id="the selector is unknown"),
        pytest.param(["vip"], {"vip": "yes"}, False, id="the selector is no condition"),
        pytest.param(["vip", "size > 5"], {"size": 9}, True, id="one is unknown, another one matches"),
    ],
)
def test_the_rest_of_a_process_keeps_no_message_that_another_worker_of_the_process_gets(
    store: Store, orders: str, others: list[str], headers: dict[str, Any], is_dead: bool
) -> None:
    session, other = open_session(store, "selecting"), open_session(store, "rest", orders)
    told = ConsumerInfo(queue_name="orders", selector=selections_of({""}, [*others, ""])[""])
    store.sessions.renew(other, Heartbeat(deadline_seconds=1e6, consumers=(told,)))
    message = publish(store, headers=json.dumps(headers))
    decline(store, session)

    assert (wait_out(store), dead(store)) == ((1, [(message, DECLINED)]) if is_dead else (0, []))
    assert (rest(store, other, others) == [message]) == (not is_dead)


def rest(store: Store, session: int, others: list[str]) -> list[int]:
    """Claim as the worker of the handler without a selector does."""
    wanted = (*(Wanted(Selector(text), 0) for text in others), Wanted(Selector(""), 9))
    request = ClaimRequest(queues=("orders",), credit=9, wanted={"orders": wanted})
    return ids(store.claims.claim(session, request).claimed)


def test_without_a_consumer_the_message_waits(store: Store, session: int) -> None:
    publish(store)
    decline(store, session)
    store.sessions.close(session)
    open_session(store, "of another queue", "letters")

    assert wait_out(store) == 0


def test_in_a_paused_queue_the_message_waits(store: Store, session: int) -> None:
    publish(store)
    decline(store, session)
    store.queues.set_paused("orders", paused=True)

    assert wait_out(store) == 0
    store.queues.set_paused("orders", paused=False)
    assert wait_out(store) == 1


def test_a_group_s_message_is_dead_when_its_owner_has_declined_it(store: Store, session: int, other: int) -> None:
    declare(store, "grouped", grouping="assigned")
    owner, _ = open_session(store, "owner", "grouped"), open_session(store, "idle", "grouped")
    message = publish(store, "grouped", group_key="a")
    decline(store, owner, "grouped")

    assert (wait_out(store), dead(store, "grouped")) == (1, [(message, DECLINED)])


def test_what_nobody_wants_goes_to_the_dead_letter_queue(store: Store) -> None:
    declare(store, "orders.dead")
    declare(store, "picky", dead_letter_queue="orders.dead")
    publish(store, "picky")
    decline(store, open_session(store, "picky", "picky"), "picky")

    assert wait_out(store) == 1
    [found] = store.browser.browse("orders.dead", states=[State.READY])
    assert DECLINED in found.headers


def test_a_redriven_message_is_new_to_all(store: Store, session: int) -> None:
    message = publish(store)
    decline(store, session)
    wait_out(store)

    assert len(store.operations.redrive([message])) == 1
    assert ids(claim(store, session)) == [message]


def test_maintenance_says_whether_anything_was_declined(store: Store, session: int) -> None:
    publish(store)
    quiet = store.maintenance.due_duties().get("bury_unwanted", True)

    decline(store, session)

    assert store.maintenance.due_duties().get("bury_unwanted", True)
    assert not quiet or not store.features.durable


def test_who_declined_is_forgotten_with_the_message(store: Store, session: int, other: int) -> None:
    publish(store)
    decline(store, session)
    [held] = claim(store, other)
    settle(store, other, held, Verdict.ACCEPT)

    store.retention.prune()

    assert not store.maintenance.due_duties().get("bury_unwanted", True) or not store.features.durable


def test_a_lost_session_has_declined_nothing(store: Store, session: int) -> None:
    message = publish(store)
    decline(store, session)
    store.sessions.renew(session, Heartbeat(deadline_seconds=1.0))
    lose_worker(store, session)
    info = SessionInfo(name="worker", kind="native", host="host", pid=1, version="1", queues=("orders",))
    store.sessions.revive(session, info, [], deadline_seconds=1e6)

    assert ids(claim(store, session)) == [message]
