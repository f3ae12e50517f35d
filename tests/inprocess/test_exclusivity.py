from typing import Any

import pytest

from django_mq.errors import (
    AccessRefused,
    ConsumersExist,
    ExclusiveConsumerExists,
    SubscriptionRefused,
    TooManyConsumers,
)
from django_mq.inprocess.consumers.admission import ConsumerAdmission, Exclusivity
from django_mq.inprocess.consumers.consumer import Client, Consumer

OWNED = [Exclusivity.SESSION, Exclusivity.CONNECTION, Exclusivity.PRINCIPAL, Exclusivity.CONTAINER]
PASSING, LASTING = OWNED[:2], OWNED[2:]


class Consumers:
    """The consumers of a queue, and its admission."""

    def __init__(self, *options: Any) -> None:
        self.admission = ConsumerAdmission(*options)
        self.inside: list[Consumer] = []

    def enter(self, consumer: Consumer) -> Consumer:
        self.admission.admit(consumer, self.inside)
        self.inside.append(consumer)
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self.inside.remove(consumer)
        self.admission.left(consumer, self.inside)


def of(policy: Exclusivity, name: str, **options: Any) -> Consumer:
    """A consumer whose client has this name for what the policy asks for, and a name of its own for the rest."""
    names = {each.value: object().__repr__() for each in OWNED}
    return Consumer(name, client=Client(**names | {policy.value: name}), **options)


def test_all_are_welcome_by_default() -> None:
    consumers = Consumers()

    for name in "abc":
        consumers.enter(Consumer(name))


def test_an_exclusive_consumer_keeps_all_others_out() -> None:
    consumers = Consumers()
    consumers.enter(Consumer("alone", exclusive=True))

    for other in (
        Consumer("plain"),
        Consumer("browser", browser=True),
        Consumer("exclusive", exclusive=True),
        Consumer("get", transient=True),
    ):
        with pytest.raises(ExclusiveConsumerExists):
            consumers.enter(other)


def test_an_exclusive_consumer_is_refused_where_others_are() -> None:
    consumers = Consumers()
    consumers.enter(Consumer("browser", browser=True))

    with pytest.raises(ConsumersExist):
        consumers.enter(Consumer("alone", exclusive=True))


def test_the_queue_is_open_again_when_the_exclusive_consumer_has_left() -> None:
    consumers = Consumers()
    consumers.leave(consumers.enter(Consumer("alone", exclusive=True)))

    consumers.enter(Consumer("other"))


def test_a_transient_consumer_claims_nothing() -> None:
    consumers = Consumers()
    consumers.enter(Consumer("other"))

    consumers.enter(Consumer("get", exclusive=True, transient=True))
    consumers.enter(Consumer("another"))


def test_a_link_is_alone() -> None:
    consumers = Consumers(Exclusivity.LINK)
    first = consumers.enter(Consumer("first"))

    with pytest.raises(AccessRefused, match="one consumer at a time"):
        consumers.enter(Consumer("second"))

    consumers.leave(first)
    consumers.enter(Consumer("second"))


@pytest.mark.parametrize("policy", OWNED)
def test_the_first_owns_the_queue_and_may_come_again(policy: Exclusivity) -> None:
    consumers = Consumers(policy)
    consumers.enter(of(policy, "mine"))
    consumers.enter(of(policy, "mine"))

    with pytest.raises(AccessRefused, match=f"another {policy.value}"):
        consumers.enter(of(policy, "yours"))

    assert consumers.admission.owner == "mine"


@pytest.mark.parametrize("policy", OWNED)
def test_a_nameless_consumer_cannot_come_where_names_count(policy: Exclusivity) -> None:
    consumers = Consumers(policy)

    for nameless in (Consumer("nameless"), Consumer("nameless", client=Client())):
        with pytest.raises(AccessRefused, match=policy.value):
            consumers.enter(nameless)


@pytest.mark.parametrize("policy", PASSING)
def test_a_session_or_connection_owns_the_queue_until_its_last_consumer_leaves(policy: Exclusivity) -> None:
    consumers = Consumers(policy)
    first, second = consumers.enter(of(policy, "mine")), consumers.enter(of(policy, "mine"))

    consumers.leave(first)
    with pytest.raises(AccessRefused):
        consumers.enter(of(policy, "yours"))

    consumers.leave(second)
    consumers.enter(of(policy, "yours"))


@pytest.mark.parametrize("policy", PASSING)
def test_a_stranger_that_leaves_frees_nothing(policy: Exclusivity) -> None:
    consumers = Consumers(policy)
    consumers.admission.owner = "mine"

    consumers.admission.left(of(policy, "yours"), [])

    assert consumers.admission.owner == "mine"


@pytest.mark.parametrize("policy", LASTING)
def test_a_principal_or_container_owns_the_queue_until_it_is_set_free(policy: Exclusivity) -> None:
    consumers = Consumers(policy)
    consumers.leave(consumers.enter(of(policy, "mine")))

    with pytest.raises(AccessRefused):
        consumers.enter(of(policy, "yours"))

    consumers.admission.owner = None
    consumers.enter(of(policy, "yours"))


@pytest.mark.parametrize("policy", OWNED)
def test_a_transient_consumer_owns_no_queue_but_respects_its_owner(policy: Exclusivity) -> None:
    consumers = Consumers(policy)
    passing = consumers.enter(of(policy, "yours", transient=True))
    mine = consumers.enter(of(policy, "mine"))

    consumers.leave(passing)
    with pytest.raises(AccessRefused):
        consumers.enter(of(policy, "yours", transient=True))

    assert (consumers.inside, consumers.admission.owner) == ([mine], "mine")


def test_only_so_many_consumers_come_in() -> None:
    consumers = Consumers(Exclusivity.NONE, 2)
    first = consumers.enter(Consumer("a"))
    consumers.enter(Consumer("b"))

    with pytest.raises(TooManyConsumers):
        consumers.enter(Consumer("c"))

    consumers.leave(first)
    consumers.enter(Consumer("c"))


def test_nobody_comes_in_where_there_is_room_for_none() -> None:
    with pytest.raises(TooManyConsumers):
        Consumers(Exclusivity.NONE, 0).enter(Consumer("a"))


def test_who_is_refused_owns_nothing() -> None:
    consumers = Consumers(Exclusivity.PRINCIPAL, 0)

    with pytest.raises(SubscriptionRefused):
        consumers.enter(of(Exclusivity.PRINCIPAL, "mine"))

    assert consumers.admission.owner is None


def test_a_policy_has_a_name_to_be_configured_by() -> None:
    assert [Exclusivity(each) for each in ("none", "link", "session")] == list(Exclusivity)[:3]
