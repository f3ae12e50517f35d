"""The picture of a graph: steps to the right of those that they wait for, and folded where they are many."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from django_mq.admin.workflows.drawing import HEIGHT, MOST_FAILED, MOST_IN_COLUMN, Node, NodeKind, drawn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.admin.workflows.drawing import Drawing


def wide(number: int, failed: Iterable[int] = ()) -> list[Node]:
    bad = set(failed)
    steps = [
        Node(f"s{place}", ("first",), NodeKind.BAD if place in bad else NodeKind.DONE) for place in range(number)
    ]
    return [Node("first", (), NodeKind.DONE), *steps, Node("last", tuple(step.name for step in steps))]


def deep(number: int, going: int = -1) -> list[Node]:
    return [
        Node(
            f"s{place}",
            (f"s{place - 1}",) if place else (),
            NodeKind.GOING if place == going else NodeKind.DONE if place < going else NodeKind.WAITING,
        )
        for place in range(number)
    ]


def ladder(number: int) -> list[Node]:
    """Two columns of steps, each of which waits for both steps before it."""
    return [
        Node(f"{side}{place}", (f"a{place - 1}", f"b{place - 1}") if place else ())
        for place in range(number)
        for side in "ab"
    ]


def crowd(number: int) -> list[Node]:
    """As many chains, of different lengths: all first steps have different places."""
    return [
        Node(f"s{chain} {place}", (f"s{chain} {place - 1}",) if place else ())
        for chain in range(number)
        for place in range(chain + 1)
    ]


def check(picture: Drawing, nodes: list[Node]) -> None:
    """Check that each step is in one box, to the right of those that it waits for, and that boxes lie apart."""
    assert sorted(name for box in picture.boxes for name in box.names) == sorted(node.name for node in nodes)
    for box in picture.boxes:
        assert all(before.x < box.x for before in box.before)
        assert 0 <= box.x < picture.width
        assert 0 <= box.y <= picture.height - HEIGHT
    for one, other in pairwise(sorted(picture.boxes, key=lambda box: (box.x, box.y))):
        assert one.x != other.x or other.y - one.y >= HEIGHT
    assert len(picture.lines) == sum(len(box.before) for box in picture.boxes)


@pytest.mark.parametrize(
    ("nodes", "boxes"),
    [
        ([Node("a")], 1),
        ([Node("a"), Node("b"), Node("c", ("b",)), Node("d", ("a", "c")), Node("e", ("a",))], 5),
        (wide(5), 7),
        (wide(1000), 3),
        (wide(1000, failed=[7, 8]), 5),
        (wide(1000, failed=range(100)), 4),
        (ladder(4), 8),
        ([Node("a", ("gone",)), Node("b", ("a", "gone"))], 2),
        ([Node("a", ("b",)), Node("b", ("a",)), Node("c", ("b",))], 3),
    ],
)
def test_each_step_is_in_one_box_and_many_alike_are_one(nodes: list[Node], boxes: int) -> None:
    picture = drawn(nodes)
    check(picture, nodes)
    assert len(picture.boxes) == boxes


@pytest.mark.parametrize("nodes", [deep(1000), deep(1000, going=500), ladder(500)])
def test_the_middle_of_a_long_graph_is_folded_but_for_what_runs(nodes: list[Node]) -> None:
    picture = drawn(nodes)
    check(picture, nodes)
    assert len(picture.boxes) <= 60
    [*alone] = [box for box in picture.boxes if "s500" in box.names and not box.is_folded]
    assert len(alone) == (nodes[500].kind is NodeKind.GOING)


def test_a_column_has_a_bounded_number_of_boxes() -> None:
    nodes = crowd(18)
    picture = drawn(nodes)
    check(picture, nodes)
    columns = Counter(box.x for box in picture.boxes)
    assert max(columns.values()) == MOST_IN_COLUMN


def test_branches_with_the_same_place_are_folded_step_by_step() -> None:
    nodes = [Node("first")]
    for place in range(50):
        nodes += [Node(f"a{place}", ("first",)), Node(f"b{place}", (f"a{place}",))]
    nodes.append(Node("last", tuple(f"b{place}" for place in range(50))))
    assert [len(box.names) for box in drawn(nodes).boxes] == [1, 50, 50, 1]
    nodes[1] = Node("a0", ("first",), NodeKind.BAD)
    assert [len(box.names) for box in drawn(nodes).boxes][1:3] in ([1, 49], [49, 1])
    assert MOST_FAILED > 1


def test_two_independent_steps_stand_below_each_other() -> None:
    picture = drawn([Node("a"), Node("b"), Node("c", ("b",))])
    places = {box.names[0]: (box.x, box.y) for box in picture.boxes}
    assert places["a"][0] == places["b"][0] < places["c"][0]
    assert places["a"][1] < places["b"][1] == places["c"][1]
