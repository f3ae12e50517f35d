"""What the index of declared selectors says of a message."""

from __future__ import annotations

import pytest

from django_mq.engine.decisions.declared import (
    FIRST,
    NONE,
    NUMBERS,
    SEVERAL,
    UNASKED,
    Declared,
    declared_in,
    problems_of,
)
from django_mq.engine.message import Message
from django_mq.engine.options import QueueOptions
from django_mq.engine.selector import Selector


def of(text: str) -> Declared:
    declared = declared_in(text)
    assert declared is not None
    return declared


def test_a_message_meets_the_one_selector_that_matches_it() -> None:
    declared = of("colour = 'red'\n\n  size > 5  ")
    found = [
        declared.meets(Message(id="", headers=headers)) - declared.mark
        for headers in ({"colour": "red"}, {"size": 6}, {"colour": "red", "size": 6}, {})
    ]

    assert sorted(found[:2]) == [FIRST, FIRST + 1]
    assert found[2:] == [SEVERAL, NONE]


def test_a_claim_looks_where_each_message_is_that_its_selector_matches() -> None:
    declared = of("colour = 'red'\nsize > 5")
    message = Message(id="", headers={"colour": "red"})

    assert declared.where(Selector("colour='red'")) == [declared.meets(message), declared.mark + SEVERAL, UNASKED]
    assert declared.where(Selector("colour = 'blue'")) is None
    assert declared.where(Selector("")) is None


def test_the_order_of_the_lines_does_not_matter_and_another_list_has_other_numbers() -> None:
    assert of("a = 1\r\nb = 1").mark == of("b  =  1\na = 1").mark
    assert abs(of("a = 1\nb = 1").mark - of("a = 1").mark) >= NUMBERS
    assert 0 < of("a = 1").mark < 2**62


@pytest.mark.parametrize("text", ["", " \n ", "a = "])
def test_no_list_and_a_list_that_cannot_be_read_declare_nothing(text: str) -> None:
    assert declared_in(text) is None


def test_what_cannot_be_declared_is_said_with_the_line() -> None:
    text = "a = 1\na  = 1\nsize >\nJMSExpiration > 0 AND JMSDeliveryTime > 5"

    assert [*problems_of(text)] == [*QueueOptions(selectors=text).contradictions()]
    assert [*problems_of(text)] == [
        "selectors has 'a  = 1' twice",
        "selectors has 'size >': Expected a value, found the end at position 6",
        "selectors has 'JMSExpiration > 0 AND JMSDeliveryTime > 5'; JMSDeliveryTime changes in the queue",
    ]
