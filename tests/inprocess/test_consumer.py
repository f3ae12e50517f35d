from django_mq.engine.decisions.credit import WindowCredit
from django_mq.inprocess.consumers.consumer import Consumer
from tests.inprocess.builders import entry


def test_a_consumer_without_credit_of_its_own_has_no_limits() -> None:
    assert Consumer("c").credit.free is None


def test_a_consumer_desires_work_while_it_has_credit_and_is_not_paused() -> None:
    consumer = Consumer("c", WindowCredit(messages=1))
    assert consumer.desires_work

    consumer.paused = True
    assert not consumer.desires_work

    consumer.paused = False
    consumer.credit.take(0)
    assert not consumer.desires_work


def test_settling_gives_exactly_the_credit_back_that_was_taken_and_only_once() -> None:
    consumer = Consumer("c", WindowCredit(messages=5))
    each = entry()
    consumer.credit.take(0)
    consumer.unsettled[each] = 1

    assert [consumer.settle(each), consumer.settle(each)] == [True, False]

    assert consumer.credit.free == 5


def test_a_settlement_of_an_earlier_delivery_is_void() -> None:
    consumer = Consumer("c", WindowCredit(messages=1))
    each = entry()
    consumer.credit.take(0)
    consumer.unsettled[each] = 2

    assert not consumer.settle(each, claim_number=1)

    assert consumer.credit.free == 0
