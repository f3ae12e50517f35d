from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.expressions import PROPERTIES
from django_mq.engine.message import Message
from django_mq.engine.selector import Selector
from tests.engine.builders import message

FULL: dict[str, Any] = {
    "priority": 7,
    "size": 120,
    "queue": "letters",
    "type": "letter",
    "correlation_id": "c-1",
    "reply_to": "answers",
    "published_at": 1000.25,
    "deliver_at": 2000.0,
    "expires_at": 3000.5,
}


@pytest.mark.parametrize(
    "condition",
    [
        "JMSMessageID = 'm' AND AMQUserID = 'm'",
        "JMSPriority = 7 AND AMQPriority = 7",
        "JMSTimestamp = 1000250 AND AMQTimestamp = 1000250",
        "JMSDeliveryTime = 2000000",
        "JMSExpiration = 3000500 AND AMQExpiration = 3000500",
        "JMSDestination = 'letters' AND AMQAddress = 'letters'",
        "JMSType = 'letter'",
        "JMSCorrelationID = 'c-1'",
        "JMSReplyTo = 'answers'",
        "AMQSize = 120",
    ],
)
def test_a_property_is_asked_for_by_its_name_in_jms_or_artemis(condition: str) -> None:
    assert Selector(condition).matches(message(**FULL))


@pytest.mark.parametrize(
    "name", ["JMSTimestamp", "JMSDeliveryTime", "JMSDestination", "JMSType", "JMSCorrelationID", "JMSReplyTo"]
)
def test_a_property_that_was_not_set_has_no_value(name: str) -> None:
    assert Selector(f"{name} IS NULL").matches(message())


def test_a_message_that_never_expires_has_expiration_nought() -> None:
    assert Selector("JMSExpiration = 0 AND AMQExpiration = 0").matches(message())


def test_a_message_without_delay_may_be_delivered_when_it_is_published() -> None:
    assert Selector("JMSDeliveryTime = 5000").matches(message(published_at=5.0))


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_a_header_cannot_stand_in_for_a_property(name: str) -> None:
    assert not Selector(f"{name} = 'forged'").matches(message(headers={name: "forged"}))


def test_the_names_of_properties_are_case_sensitive_too() -> None:
    assert Selector("jmsPriority = 'mine' AND JMSPriority = 4").matches(message(headers={"jmsPriority": "mine"}))


@pytest.mark.parametrize("time", [float("inf"), float("nan"), 1e308, 10**400, -1e308, "soon", True, None])
@pytest.mark.parametrize("name", ["JMSTimestamp", "JMSDeliveryTime"])
def test_a_time_that_is_none_has_no_value(name: str, time: Any) -> None:
    assert Selector(f"{name} IS NULL").matches(message(published_at=time))


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.none())
)
FIELDS = st.fixed_dictionaries({"id": ANYTHING}, optional=dict.fromkeys([*FULL, "body"], ANYTHING))


@given(st.sampled_from(sorted(PROPERTIES)), FIELDS)
def test_a_property_of_any_type_can_be_asked_for(name: str, fields: dict[str, Any]) -> None:
    stored = Message(**fields)

    assert Selector(f"{name} IS NULL OR {name} IS NOT NULL").matches(stored)
    assert Selector(f"{name} < 1").matches(stored) in (True, False)
