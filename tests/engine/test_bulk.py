"""What a handler of many gets at a time, and which message is charged when its call fails."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.bulk import BulkLine, behind, gathered, parts_after, wait_seconds
from django_mq.engine.decisions.verdict import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass
class Waiting:
    """A message that waits."""

    suspect: bool = False
    attempts: int = 0


FIRST, AGAIN, SUSPECT = Waiting(), Waiting(attempts=2), Waiting(suspect=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ([], 0),
        ([FIRST, FIRST], 2),
        ([FIRST] * 4, 3),
        ([SUSPECT, SUSPECT], 1),
        ([FIRST, SUSPECT, FIRST], 1),
        ([AGAIN, Waiting(attempts=1), FIRST], 2),
        ([FIRST, AGAIN], 1),
    ],
    ids=str,
)
def test_a_bulk_has_the_first_messages_of_one_kind(line: list[Waiting], expected: int) -> None:
    assert gathered(line, 3) == expected


def test_a_bulk_waits_while_another_message_can_join_it() -> None:
    waits = [wait_seconds(BulkLine(1), 3, waited, 0.5) for waited in (0.0, 0.2, 0.5, 9.0)]

    assert waits == pytest.approx([0.5, 0.3, 0.0, 0.0])
    for full in (BulkLine(3), BulkLine(4), BulkLine(1, suspect=True), BulkLine(1, may_grow=False)):
        assert wait_seconds(full, 3, 0.0, 0.5) == 0.0


@pytest.mark.parametrize("ending", [Ending.RELEASED, Ending.DECLINED])
def test_an_error_that_gives_back_holds_for_each_message(ending: Ending) -> None:
    assert parts_after("abc", ending) == []


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.REJECTED, Ending.RETURNED, Ending.REVOKED])
def test_any_other_error_holds_for_one_message_only(ending: Ending) -> None:
    assert parts_after("abc", ending) == ["ab", "c"]
    assert parts_after("a", ending) == []


class Run:
    """What becomes of a bulk, by the rules."""

    def __init__(self, size: int, call: Callable[[Sequence[int]], Ending], groups: Sequence[str | None]) -> None:
        self.calls: list[Sequence[int]] = []
        self.settled: list[tuple[int, Ending]] = []
        parts: list[Sequence[int]] = [range(size)]
        while parts:
            part, *parts = parts
            self.calls.append(part)
            ending = call(part)
            smaller = [] if ending is Ending.RETURNED else parts_after(part, ending)
            parts = [*smaller, *parts]
            if smaller:
                continue
            self.settled += [(number, ending) for number in part]
            if ending is Ending.FAILED:
                back = set(behind(groups[part[0]], parts, lambda number: groups[number]))
                self.settled += [(number, Ending.RELEASED) for number in sorted(back)]
                parts = [rest for part in parts if (rest := [each for each in part if each not in back])]

    def those(self, ending: Ending) -> set[int]:
        return {number for number, found in self.settled if found is ending}


bulks = st.integers(1, 200).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.sets(st.integers(0, size - 1), max_size=5),
        st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=size, max_size=size),
    )
)


@given(bulks)
def test_only_the_poison_is_charged_and_nothing_is_settled_twice(
    case: tuple[int, set[int], list[str | None]],
) -> None:
    size, poison, groups = case
    run = Run(size, lambda part: Ending.FAILED if poison.intersection(part) else Ending.RETURNED, groups)

    assert Counter(number for number, _ in run.settled) == Counter(range(size))
    assert run.those(Ending.FAILED) <= poison
    assert run.those(Ending.RETURNED).isdisjoint(poison)
    back = {n for n in range(size) if any(p < n and groups[p] == groups[n] is not None for p in poison)}
    assert run.those(Ending.RELEASED) <= back
    assert poison - back <= run.those(Ending.FAILED)
    # Halves of halves: for each message at fault, two calls at each depth.
    assert len(run.calls) <= 1 + 2 * len(poison) * size.bit_length()


@given(bulks)
def test_the_messages_of_a_group_are_given_in_their_order(case: tuple[int, set[int], list[str | None]]) -> None:
    size, poison, groups = case
    run = Run(size, lambda part: Ending.FAILED if poison.intersection(part) else Ending.RETURNED, groups)

    for group in ("a", "b", "c"):
        done = [n for n, ending in run.settled if groups[n] == group and ending is not Ending.RELEASED]
        assert done == sorted(done)


@given(st.integers(2, 50), st.data())
def test_messages_that_fail_only_together_are_not_charged(size: int, data: st.DataObject) -> None:
    pair = data.draw(st.sets(st.integers(0, size - 1), min_size=2, max_size=2))
    run = Run(size, lambda part: Ending.FAILED if pair.issubset(part) else Ending.RETURNED, [None] * size)

    assert run.those(Ending.FAILED) == set()
    assert run.those(Ending.RETURNED) == set(range(size))
