from collections.abc import Iterator

import pytest

from django_mq.errors import ListKeyMissing, ListKindTaken, UnknownListKind
from django_mq.inprocess.entries import lists
from django_mq.inprocess.entries.entry import Entry
from django_mq.inprocess.entries.lists import (
    FifoList,
    LastValueList,
    OrderedList,
    PriorityList,
    SortedList,
    make_list,
    register_list,
)
from tests.engine.builders import message
from tests.inprocess.builders import names


class ShortestFirst(OrderedList):
    """Small messages before large ones, equals by arrival."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(key=lambda entry: (entry.message.size, entry.arrival))


def shortest_first(*, key: str | None, levels: int) -> ShortestFirst:
    return ShortestFirst()


@pytest.fixture
def clean_registry() -> Iterator[None]:
    kinds = dict(lists._factories)
    yield
    lists._factories.clear()
    lists._factories.update(kinds)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("fifo", FifoList), ("priority", PriorityList), ("sorted", SortedList), ("last_value", LastValueList)],
)
def test_each_kind_makes_its_list(kind: str, expected: type) -> None:
    assert type(make_list(kind, key="k", levels=1)) is expected


def test_every_list_made_is_a_new_one() -> None:
    assert make_list("fifo", key=None, levels=1) is not make_list("fifo", key=None, levels=1)


def test_last_values_stand_in_levels_if_the_queue_has_some() -> None:
    entries = make_list("last_value", key="k", levels=10)

    for arrival, level in enumerate((1, 9)):
        entries.add(Entry(message(f"level {level}"), level=level, arrival=arrival))

    assert names(entries.heads()) == ["level 9", "level 1"]


@pytest.mark.parametrize("kind", ["sorted", "last_value"])
@pytest.mark.parametrize("key", [None, ""])
def test_a_kind_that_needs_a_key_says_so(kind: str, key: str | None) -> None:
    with pytest.raises(ListKeyMissing, match=f"'{kind}' needs a key"):
        make_list(kind, key=key, levels=1)


def test_an_unknown_kind_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownListKind, match=r"'lifo'.*fifo, last_value, priority, sorted"):
        make_list("lifo", key=None, levels=1)


@pytest.mark.usefixtures("clean_registry")
def test_a_queue_can_stand_in_an_order_of_ones_own() -> None:
    register_list("shortest_first", shortest_first)
    entries = make_list("shortest_first", key=None, levels=1)

    for arrival, size in enumerate((500, 20, 100, 20)):
        entries.add(Entry(message(f"m{arrival}", size=size), arrival=arrival))

    assert names(entries) == ["m1", "m3", "m2", "m0"]


@pytest.mark.usefixtures("clean_registry")
def test_the_queues_settings_reach_a_list_of_ones_own() -> None:
    heard: list[object] = []

    def listening(*, key: str | None, levels: int) -> FifoList:
        heard.extend((key, levels))
        return FifoList()

    register_list("listening", listening)
    make_list("listening", key="header", levels=3)

    assert heard == ["header", 3]


@pytest.mark.usefixtures("clean_registry")
def test_a_kind_is_registered_once() -> None:
    register_list("shortest_first", shortest_first)

    for kind in ("shortest_first", "fifo"):
        with pytest.raises(ListKindTaken, match=kind):
            register_list(kind, shortest_first)

    assert type(make_list("fifo", key=None, levels=1)) is FifoList
