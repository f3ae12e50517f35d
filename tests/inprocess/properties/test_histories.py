"""Queues of many kinds, each beside its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import settings

from django_mq.engine.selector import Selector
from tests.inprocess.properties.machine import QueueMachine
from tests.inprocess.properties.model import Kind

if TYPE_CHECKING:
    from unittest import TestCase

RED = Selector("color = 'red'")
SMALL = settings(max_examples=30, stateful_step_count=40, deadline=None)


def histories(
    name: str, *, lifetimes: list[int | None] | None = None, consumers: Any = None, **kind: Any
) -> type[TestCase]:
    members: dict[str, Any] = {"kind": Kind(**kind), "lifetimes": lifetimes or [None]}
    if consumers is not None:
        members["consumers"] = consumers
    machine: Any = type(name, (QueueMachine,), members)
    machine.TestCase.settings = SMALL
    case: type[TestCase] = machine.TestCase
    return case


MIXED = [
    ("one", 1, 1000, {}),
    ("red", 3, 20, {"selector": RED}),
    ("high", 2, 1000, {"priority": 5}),
    ("high red", 2, 12, {"priority": 5, "selector": RED}),
]
LOOKING = [
    ("any", 3, 1000, {}),
    ("browser", 100, 1000, {"browser": True}),
    ("red browser", 3, 20, {"browser": True, "selector": RED}),
]
STEALABLE = [("lent", 5, 1000, {"stealable": True}), ("fast", 2, 1000, {}), ("browser", 9, 99, {"browser": True})]

TestPriority = histories("Priority", max_attempts=2)
TestFifo = histories("Fifo", order="fifo", due_first=False, lifetimes=[None, 1, 3], consumers=LOOKING)
TestSorted = histories("Sorted", order="sorted", consumers=MIXED)
TestSortedBrowsed = histories("SortedBrowsed", order="sorted", consumers=LOOKING)
TestLastValue = histories("LastValue", order="last_value", lifetimes=[None, 2])
TestRing = histories("Ring", ring=4, consumers=STEALABLE, lifetimes=[None, 2])
TestReject = histories("Reject", reject=4, dead_letters=True, max_attempts=1)
TestAssigned = histories("Assigned", groups="assigned", due_first=False)
TestShared = histories("Shared", groups="shared", consumers=MIXED)
TestSharedSorted = histories("SharedSorted", groups="shared", order="sorted")
TestMixed = histories("Mixed", consumers=MIXED, lifetimes=[None, None, 2])
TestBrowsed = histories(
    "Browsed", consumers=LOOKING, lifetimes=[None, None, 2], dead_letters=True, expiry_queue=True
)
TestStealable = histories(
    "Stealable", consumers=STEALABLE, lifetimes=[None, 1], dead_letters=True, expiry_queue=True
)
TestHold = histories("Hold", hold=True, consumers=LOOKING, lifetimes=[None, 3])
TestLive = histories("Live", max_live=2, consumers=MIXED)
TestAssignedMixed = histories("AssignedMixed", groups="assigned", consumers=MIXED, lifetimes=[None, 3])
TestSharedRing = histories("SharedRing", groups="shared", ring=4, consumers=STEALABLE)
TestHoldGroups = histories("HoldGroups", hold=True, groups="shared", consumers=MIXED)
TestLastValueRing = histories("LastValueRing", order="last_value", ring=3, consumers=STEALABLE)
