import pytest

from django_mq.engine.states import State
from django_mq.errors import IllegalMove
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.entries.entry import Entry
from tests.inprocess.builders import entry

ALICE = Consumer("alice")
BOB = Consumer("bob")


@pytest.fixture
def claimed() -> Entry:
    each = entry()
    assert each.claim(ALICE)
    return each


def test_higher_levels_stand_before_lower_places_before_earlier_arrivals() -> None:
    first, second = entry(level=2, arrival=9), entry(level=1, place=-5, arrival=8)
    third, fourth = entry(level=1, arrival=1), entry(level=1, arrival=2)

    assert sorted([fourth, third, second, first], key=lambda each: each.order) == [first, second, third, fourth]


def test_claiming_names_the_owner_and_counts_the_attempt(claimed: Entry) -> None:
    assert (claimed.state, claimed.owner, claimed.attempts, claimed.claim_number) == (State.CLAIMED, ALICE, 1, 1)


def test_what_is_claimed_cannot_be_claimed_again(claimed: Entry) -> None:
    assert not claimed.claim(BOB)

    assert (claimed.owner, claimed.attempts) == (ALICE, 1)


@pytest.mark.parametrize("settle", [Entry.accept, Entry.release, Entry.decline, Entry.fail, Entry.reject])
def test_only_the_owner_settles(claimed: Entry, settle: object) -> None:
    assert callable(settle)

    assert not settle(claimed, BOB)

    assert (claimed.state, claimed.owner) == (State.CLAIMED, ALICE)


@pytest.mark.parametrize("settle", [Entry.accept, Entry.release, Entry.decline, Entry.fail, Entry.reject])
def test_a_second_settlement_does_nothing(claimed: Entry, settle: object) -> None:
    assert callable(settle)
    assert settle(claimed, ALICE)
    state, attempts = claimed.state, claimed.attempts

    assert not settle(claimed, ALICE)

    assert (claimed.state, claimed.attempts, claimed.owner) == (state, attempts, None)


def test_a_release_takes_the_attempt_back_and_leaves_a_mark(claimed: Entry) -> None:
    claimed.release(ALICE)

    assert (claimed.state, claimed.attempts, claimed.redelivered) == (State.READY, 0, True)


def test_a_declined_entry_remembers_whom_it_is_not_for(claimed: Entry) -> None:
    claimed.decline(ALICE)

    assert not ALICE.wants(claimed)
    assert BOB.wants(claimed)


def test_a_failure_keeps_the_attempt(claimed: Entry) -> None:
    claimed.fail(ALICE)

    assert (claimed.state, claimed.attempts, claimed.redelivered) == (State.READY, 1, True)


def test_a_failure_with_a_time_is_scheduled(claimed: Entry) -> None:
    claimed.fail(ALICE, due_at=5.0)

    assert (claimed.state, claimed.due_at) == (State.SCHEDULED, 5.0)


def test_the_claim_number_grows_even_where_attempts_are_taken_back(claimed: Entry) -> None:
    claimed.release(ALICE)
    claimed.claim(ALICE)

    assert (claimed.attempts, claimed.claim_number) == (1, 2)


def test_the_order_outlives_every_change() -> None:
    each = entry(level=3, place=-7, arrival=11)

    for _ in range(2):
        each.claim(ALICE)
        each.fail(ALICE)

    assert each.order == (-3, -7, 11)


def test_discarding_works_once() -> None:
    each = entry()

    assert [each.discard(), each.discard()] == [True, False]


def test_a_swap_that_lost_the_race_is_not_an_error_but_an_illegal_one_is() -> None:
    each = entry()

    assert not each.swap(State.CLAIMED, State.GONE)
    with pytest.raises(IllegalMove):
        each.swap(State.READY, State.SCHEDULED)


def test_a_release_with_a_time_is_scheduled_and_uncounted(claimed: Entry) -> None:
    claimed.release(ALICE, due_at=5.0)

    assert (claimed.state, claimed.due_at, claimed.attempts) == (State.SCHEDULED, 5.0, 0)
