from typing import Any

import pytest

from django_mq.engine.admission import Admission, Exclusivity
from django_mq.engine.consumer import Client, Consumer
from django_mq.errors import (
    AccessRefused,
    ConsumersExist,
    ExclusiveConsumerExists,
    SubscriptionRefused,
    TooManyConsumers,
)

OWNED = [Exclusivity.SESSION, Exclusivity.CONNECTION, Exclusivity.PRINCIPAL, Exclusivity.CONTAINER]
PASSING, LASTING = OWNED[:2], OWNED[2:]


class Door:
    """An admission and those it has let in."""

    def __init__(self, *options: Any) -> None:
        self.admission = Admission(*options)
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
    door = Door()

    for name in "abc":
        door.enter(Consumer(name))


def test_an_exclusive_consumer_keeps_all_others_out() -> None:
    door = Door()
    door.enter(Consumer("alone", exclusive=True))

    for other in (
        Consumer("plain"),
        Consumer("browser", browser=True),
        Consumer("exclusive", exclusive=True),
        Consumer("get", transient=True),
    ):
        with pytest.raises(ExclusiveConsumerExists):
            door.enter(other)


def test_an_exclusive_consumer_is_refused_where_others_are() -> None:
    door = Door()
    door.enter(Consumer("browser", browser=True))

    with pytest.raises(ConsumersExist):
        door.enter(Consumer("alone", exclusive=True))


def test_the_queue_is_open_again_when_the_exclusive_consumer_has_left() -> None:
    door = Door()
    door.leave(door.enter(Consumer("alone", exclusive=True)))

    door.enter(Consumer("other"))


def test_a_transient_consumer_claims_nothing() -> None:
    door = Door()
    door.enter(Consumer("other"))

    door.enter(Consumer("get", exclusive=True, transient=True))
    door.enter(Consumer("another"))


def test_a_link_is_alone() -> None:
    door = Door(Exclusivity.LINK)
    first = door.enter(Consumer("first"))

    with pytest.raises(AccessRefused, match="one consumer at a time"):
        door.enter(Consumer("second"))

    door.leave(first)
    door.enter(Consumer("second"))


@pytest.mark.parametrize("policy", OWNED)
def test_the_first_owns_the_queue_and_may_come_again(policy: Exclusivity) -> None:
    door = Door(policy)
    door.enter(of(policy, "mine"))
    door.enter(of(policy, "mine"))

    with pytest.raises(AccessRefused, match=f"another {policy.value}"):
        door.enter(of(policy, "yours"))

    assert door.admission.owner == "mine"


@pytest.mark.parametrize("policy", OWNED)
def test_a_nameless_consumer_cannot_come_where_names_count(policy: Exclusivity) -> None:
    door = Door(policy)

    for nobody in (Consumer("nobody"), Consumer("nobody", client=Client())):
        with pytest.raises(AccessRefused, match=policy.value):
            door.enter(nobody)


@pytest.mark.parametrize("policy", PASSING)
def test_a_session_or_connection_owns_the_queue_until_its_last_consumer_leaves(policy: Exclusivity) -> None:
    door = Door(policy)
    first, second = door.enter(of(policy, "mine")), door.enter(of(policy, "mine"))

    door.leave(first)
    with pytest.raises(AccessRefused):
        door.enter(of(policy, "yours"))

    door.leave(second)
    door.enter(of(policy, "yours"))


@pytest.mark.parametrize("policy", PASSING)
def test_a_stranger_that_leaves_frees_nothing(policy: Exclusivity) -> None:
    door = Door(policy)
    door.admission.owner = "mine"

    door.admission.left(of(policy, "yours"), [])

    assert door.admission.owner == "mine"


@pytest.mark.parametrize("policy", LASTING)
def test_a_principal_or_container_owns_the_queue_until_it_is_set_free(policy: Exclusivity) -> None:
    door = Door(policy)
    door.leave(door.enter(of(policy, "mine")))

    with pytest.raises(AccessRefused):
        door.enter(of(policy, "yours"))

    door.admission.owner = None
    door.enter(of(policy, "yours"))


@pytest.mark.parametrize("policy", OWNED)
def test_a_transient_consumer_owns_no_queue_but_respects_its_owner(policy: Exclusivity) -> None:
    door = Door(policy)
    passing = door.enter(of(policy, "yours", transient=True))
    mine = door.enter(of(policy, "mine"))

    door.leave(passing)
    with pytest.raises(AccessRefused):
        door.enter(of(policy, "yours", transient=True))

    assert (door.inside, door.admission.owner) == ([mine], "mine")


def test_only_so_many_consumers_come_in() -> None:
    door = Door(Exclusivity.NONE, 2)
    first = door.enter(Consumer("a"))
    door.enter(Consumer("b"))

    with pytest.raises(TooManyConsumers):
        door.enter(Consumer("c"))

    door.leave(first)
    door.enter(Consumer("c"))


def test_nobody_comes_in_where_there_is_room_for_none() -> None:
    with pytest.raises(TooManyConsumers):
        Door(Exclusivity.NONE, 0).enter(Consumer("a"))


def test_who_is_refused_owns_nothing() -> None:
    door = Door(Exclusivity.PRINCIPAL, 0)

    with pytest.raises(SubscriptionRefused):
        door.enter(of(Exclusivity.PRINCIPAL, "mine"))

    assert door.admission.owner is None


def test_a_policy_has_a_name_to_be_configured_by() -> None:
    assert [Exclusivity(each) for each in ("none", "link", "session")] == list(Exclusivity)[:3]
