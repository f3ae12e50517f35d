"""Which values of a message are its search keys."""

from __future__ import annotations

from typing import Any

import pytest

from django_mq.engine.decisions.search_keys import fault_of, keys_of, names_in


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        ("", ()),
        ("order", ("order",)),
        ("order, tenant", ("order", "tenant")),
        (" a b  a\nc", ("a", "b", "c")),
    ],
)
def test_names_stand_between_spaces_or_commas(declared: str, names: tuple[str, ...]) -> None:
    assert names_in(declared) == names


@pytest.mark.parametrize(
    ("declared", "fault"),
    [
        ("order tenant", None),
        ("a b c d e f", "use at most 5 names"),
        ("x" * 101, f"the name {'x' * 100!r} is longer than 100 characters, or has a colon"),
        ("a:b", "the name 'a:b' is longer than 100 characters, or has a colon"),
        ("order Card", "'Card' is hidden by MASK"),
        ("customer.card.number", "'customer.card.number' is hidden by MASK"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(declared: str, fault: str | None) -> None:
    found = fault_of(declared, ["card"])
    assert found == fault if fault is None else str(found).startswith(fault)


@pytest.mark.parametrize(
    ("names", "sources", "keys"),
    [
        (["order"], [{"order": 4711}], [("order", "4711")]),
        (["a", "b"], [{"b": "x"}, {"a": True, "b": "y"}], [("a", "true"), ("b", "x")]),
        (["order.id"], [{"order": {"id": "4711"}}], [("order.id", "4711")]),
        (["order.id"], [{"order.id": 1.5, "order": {"id": 2}}], [("order.id", "1.5")]),
        (["a"], [None, [], "a", {"b": 1}], []),
        (["a", "b", "c", "d"], [{"a": None, "b": {}, "c": [], "d": ""}], []),
        (["a"], [{"a": "\x00"}], []),
        (["a"], [{"a": "\ud800"}], []),
        (["a"], [{"a": "x" * 300}], [("a", "x" * 255)]),
        (["a", "b"], [{"a": "  acme\n", "b": " \t"}], [("a", "acme")]),
        (["a"], [{"a": "Jürgen <script>"}], [("a", "Jürgen <script>")]),
    ],
)
def test_a_key_is_the_first_plain_value_of_its_name(names: list[str], sources: list[Any], keys: list[Any]) -> None:
    assert list(keys_of(names, sources)) == keys
