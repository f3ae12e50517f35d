"""Outcomes gathered: nothing is forgotten, and those put back keep their place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from django_mq.delivery.consumer.settlements import BATCH, CROWD, PendingSettlements
from django_mq.engine.decisions.verdict import Verdict
from django_mq.stores.records import Settlement


def outcome(number: int) -> Settlement:
    return Settlement(number, number, Verdict.ACCEPT)


def test_they_are_taken_in_the_order_they_came() -> None:
    settlements = PendingSettlements()
    for number in range(3):
        settlements.add(outcome(number))

    assert [item.id for item in settlements.take()] == [0, 1, 2]
    assert len(settlements) == 0


def test_one_write_takes_a_bounded_batch() -> None:
    settlements = PendingSettlements()
    for number in range(BATCH + 1):
        settlements.add(outcome(number))

    assert len(settlements.take()) == BATCH
    assert [item.id for item in settlements.take()] == [BATCH]


def test_what_could_not_be_written_comes_first_again() -> None:
    settlements = PendingSettlements()
    settlements.add(outcome(1))
    settlements.add(outcome(2))
    batch = settlements.take()
    settlements.add(outcome(3))

    settlements.put_back(batch)

    assert [item.id for item in settlements.take()] == [1, 2, 3]


def test_the_end_of_a_run_waits_while_its_beginning_is_being_written() -> None:
    settlements = PendingSettlements()
    begin, end = (Settlement(1, 7, verdict) for verdict in (Verdict.BEGIN, Verdict.END))
    settlements.add(end)
    settlements.add(outcome(2))

    assert settlements.take({(1, 7)}) == [outcome(2)]
    assert settlements.take({(1, 7)}) == []
    assert settlements.take() == [end]
    settlements.add_all([begin, end])
    assert settlements.take({(1, 7)}) == [begin, end]


def test_a_crowd_presses() -> None:
    settlements = PendingSettlements()
    for number in range(CROWD):
        settlements.add(outcome(number))

    assert settlements.pressing()


def test_nothing_presses_where_nothing_waits() -> None:
    settlements = PendingSettlements()
    settlements.add(outcome(1))
    settlements.take()

    assert not settlements.pressing()
    assert settlements.age_seconds() == 0.0


def test_threads_may_add_while_another_takes() -> None:
    settlements = PendingSettlements()
    taken: list[int] = []
    with ThreadPoolExecutor(4) as threads:
        adding = [threads.submit(settlements.add, outcome(number)) for number in range(2000)]
        while len(taken) < 2000:
            taken += [item.id for item in settlements.take()]
        for added in adding:
            added.result()

    assert sorted(taken) == list(range(2000))


def test_what_was_written_elsewhere_is_only_noted_and_grows_old_as_the_others_do() -> None:
    settlements = PendingSettlements()
    settlements.add(outcome(1), is_written=True)

    assert (len(settlements), settlements.ended, settlements.age_seconds() > 0) == (0, 1, True)
    assert settlements.take() == []
    assert (settlements.ended, settlements.age_seconds() > 0) == (1, True)
    assert [item.id for item in settlements.take_written()] == [1]
    assert settlements.ended == 0
