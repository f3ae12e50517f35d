"""Where the steps of a graph stand in its picture, and what is folded so that a graph of thousands can be read.

The steps stand in columns, each to the right of those that it waits for. Steps with the same place in the graph
are one box if they are many, and so are columns in the middle of a long graph. It knows names, and no models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

#: The size of a box, and the space around it.
WIDTH: Final = 190
HEIGHT: Final = 52
GAP_X: Final = 46
GAP_Y: Final = 18
MARGIN: Final = 10
#: The height that a line takes which passes a column.
LINE_HEIGHT: Final = 8
#: The most steps with the same place that are boxes of their own; of more, the most that have failed and are so.
MOST_ALIKE, MOST_FAILED = 8, 3
#: The most boxes of a column.
MOST_IN_COLUMN = 14
#: The most columns, and how many are kept at both ends.
MOST_COLUMNS, ENDS = 20, 3
#: The most lines that are led round boxes; more lines are straight.
MOST_ROUTED: Final = 400
#: How often steps are told apart by their neighbours, and columns are put in order.
ROUNDS, SWEEPS = 30, 6


class NodeKind(StrEnum):
    """How a step is drawn. The values are in the names of CSS classes."""

    WAITING = "waiting"
    GOING = "going"
    DONE = "done"
    BAD = "bad"
    #: It was not run, or is undone.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Node:
    """A step, with the names of those that it waits for."""

    name: str
    after: Collection[str] = ()
    kind: NodeKind = NodeKind.WAITING


@dataclass(slots=True, eq=False)
class Box:
    """One step in the picture, or several, by their names."""

    names: list[str]
    column: int = 0
    x: int = 0
    y: int = 0
    #: The boxes that it waits for.
    before: list[Box] = field(default_factory=list)

    @property
    def is_folded(self) -> bool:
        return len(self.names) > 1


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture: the boxes, and the lines between them as paths of SVG."""

    width: int
    height: int
    boxes: list[Box]
    lines: list[str]


def drawn(nodes: Sequence[Node]) -> Drawing:
    """Return the picture of steps. What a step waits for that is none of them is left out."""
    names = {node.name for node in nodes}
    graph = {node.name: [name for name in node.after if name in names] for node in nodes}
    columns = _columns(graph)
    graph = {name: [each for each in before if columns[each] < columns[name]] for name, before in graph.items()}
    kinds = {node.name: node.kind for node in nodes}
    boxes = _narrowed(_folded(graph, columns, kinds), kinds)
    _shorten(boxes, kinds)
    _connect(boxes, graph)
    boxes = _joined(boxes)
    return _placed(boxes)


def _columns(graph: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return how many steps are before each one, on the longest way. A circle is cut where it is entered."""
    found: dict[str, int] = {}
    for start in graph:
        waiting, entered = [start], set[str]()
        while waiting:
            name = waiting[-1]
            missing = [each for each in graph[name] if each not in found and each not in entered]
            if name in found or not missing:
                waiting.pop()
                found.setdefault(name, 1 + max((found.get(each, -1) for each in graph[name]), default=-1))
            else:
                entered.add(name)
                waiting += missing
    return found


# What is folded.


def _roles(graph: Mapping[str, Collection[str]], columns: Mapping[str, int]) -> dict[str, int]:
    """Return a number for each step, the same for steps with the same place in the graph."""
    followers: dict[str, list[str]] = {name: [] for name in graph}
    for name, before in graph.items():
        for each in before:
            followers[each].append(name)
    roles, number = dict(columns), len(set(columns.values()))
    for _round in range(ROUNDS):
        seen: dict[object, int] = {}
        fresh = {
            name: seen.setdefault(
                (role, frozenset(roles[x] for x in graph[name]), frozenset(roles[x] for x in followers[name])),
                len(seen),
            )
            for name, role in roles.items()
        }
        if len(seen) == number:
            break
        roles, number = fresh, len(seen)
    return roles


def _folded(
    graph: Mapping[str, Collection[str]], columns: Mapping[str, int], kinds: Mapping[str, NodeKind]
) -> list[Box]:
    """Return the boxes: many steps with one place are one box, but for the few of them that have failed."""
    roles = _roles(graph, columns)
    alike: dict[int, list[str]] = {}
    for name in graph:
        alike.setdefault(roles[name], []).append(name)
    boxes: list[Box] = []
    for names in alike.values():
        column = columns[names[0]]
        bad = [name for name in names if kinds[name] is NodeKind.BAD]
        if len(names) <= MOST_ALIKE:
            parts = [[name] for name in names]
        elif 0 < len(bad) <= MOST_FAILED:
            parts = [*([name] for name in bad), [name for name in names if name not in bad]]
        else:
            parts = [bad, [name for name in names if kinds[name] is not NodeKind.BAD]]
        boxes += [Box(part, column) for part in parts if part]
    return boxes


def _narrowed(boxes: Sequence[Box], kinds: Mapping[str, NodeKind]) -> list[Box]:
    """Make one box of those that a column has too many of; what has failed, or runs, stays by itself."""
    by_column: dict[int, list[Box]] = {}
    for box in boxes:
        by_column.setdefault(box.column, []).append(box)
    found: list[Box] = []
    for column, inside in by_column.items():
        if len(inside) > MOST_IN_COLUMN:
            chosen = sorted(inside, key=lambda box: _urgency(box.names, kinds))[: MOST_IN_COLUMN - 1]
            rest = [name for box in inside if box not in chosen for name in box.names]
            inside = [*(box for box in inside if box in chosen), Box(rest, column)]  # noqa: PLW2901 - the same column
        found += inside
    return found


def _urgency(names: Iterable[str], kinds: Mapping[str, NodeKind]) -> int:
    found = {kinds[name] for name in names}
    return 0 if NodeKind.BAD in found else 1 if NodeKind.GOING in found else 2


def _shorten(boxes: Sequence[Box], kinds: Mapping[str, NodeKind]) -> None:
    """Give columns in the middle of a long graph the same number: those where nothing fails or runs."""
    urgent: dict[int, int] = {}
    for box in boxes:
        urgent[box.column] = min(urgent.get(box.column, 2), _urgency(box.names, kinds))
    last = max(urgent, default=0)
    if last < MOST_COLUMNS:
        return
    kept = {*range(ENDS), *range(last + 1 - ENDS, last + 1)}
    for wanted in (0, 1, 2):
        for column in sorted(urgent):
            if urgent[column] == wanted and len(kept) < MOST_COLUMNS - ENDS:
                kept |= {column}
    number, numbers = -1, dict[int, int]()
    for column in range(last + 1):
        number += column in kept or column - 1 in kept
        numbers[column] = number
    for box in boxes:
        box.column = numbers[box.column]


def _connect(boxes: Sequence[Box], graph: Mapping[str, Collection[str]]) -> None:
    by_name = {name: box for box in boxes for name in box.names}
    for box in boxes:
        before = {id(by_name[each]): by_name[each] for name in box.names for each in graph[name]}
        box.before = [each for each in before.values() if each is not box]


def _joined(boxes: Sequence[Box]) -> list[Box]:
    """Make one box of those that wait for others of the same column: columns were made one."""
    crowded = {box.column for box in boxes for each in box.before if each.column == box.column}
    if not crowded:
        return list(boxes)
    whole: dict[int, Box] = {}
    for box in boxes:
        if box.column in crowded:
            one = whole.setdefault(box.column, Box([], box.column))
            one.names += box.names
    kept = [box for box in boxes if box.column not in crowded]
    replaced = {id(box): whole[box.column] for box in boxes if box.column in crowded}
    for box in boxes:
        target = replaced.get(id(box), box)
        before = {id(each): each for each in target.before}
        for each in box.before:
            found = replaced.get(id(each), each)
            if found is not target:
                before[id(found)] = found
        target.before = [each for each in before.values() if id(each) not in replaced]
    return [*kept, *whole.values()]


# Where the boxes stand.


@dataclass(slots=True, eq=False)
class _Place:
    """A box in its column, or a line that passes the column."""

    box: Box | None
    y: float = 0.0
    left: list[_Place] = field(default_factory=list)
    right: list[_Place] = field(default_factory=list)

    @property
    def height(self) -> int:
        return HEIGHT if self.box else LINE_HEIGHT


def _placed(boxes: list[Box]) -> Drawing:
    columns: list[list[_Place]] = [[] for _ in range(max((box.column for box in boxes), default=0) + 1)]
    places = {id(box): _Place(box) for box in boxes}
    for box in boxes:
        columns[box.column].append(places[id(box)])
    ways = _ways(boxes, places, columns)
    _put_in_order(columns)
    for sweep in range(SWEEPS):
        _align(columns, to_the_right=sweep % 2 == 0)
    _align(columns, to_the_right=True)
    top = min((place.y - place.height / 2 for column in columns for place in column), default=0)
    for column in columns:
        for place in column:
            place.y += MARGIN - top
    for box in boxes:
        box.x = MARGIN + box.column * (WIDTH + GAP_X)
        box.y = round(places[id(box)].y) - HEIGHT // 2
    bottom = max((place.y + place.height / 2 for column in columns for place in column), default=0)
    width = len(columns) * (WIDTH + GAP_X) - GAP_X + 2 * MARGIN
    boxes.sort(key=lambda box: (box.column, box.y))
    return Drawing(width, round(bottom) + MARGIN, boxes, [_line(way) for way in ways])


def _ways(
    boxes: Sequence[Box], places: Mapping[int, _Place], columns: Sequence[list[_Place]]
) -> list[list[tuple[int, _Place]]]:
    """Return the lines, each as the places that it passes, with their columns."""
    number = sum(len(box.before) for box in boxes)
    found = []
    for box in boxes:
        for before in box.before:
            way = [(before.column, places[id(before)])]
            if number <= MOST_ROUTED:
                for column in range(before.column + 1, box.column):
                    way.append((column, _Place(None)))
                    columns[column].append(way[-1][1])
            way.append((box.column, places[id(box)]))
            for (_, one), (_, other) in pairwise(way):
                one.right.append(other)
                other.left.append(one)
            found.append(way)
    return found


def _put_in_order(columns: Sequence[list[_Place]]) -> None:
    """Let few lines cross: each place stands near the middle of its neighbours."""
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            middles = {id(place): place.y for place in column}
            for place in column:
                beside = place.left if forward else place.right
                if beside:
                    middles[id(place)] = sum(each.y for each in beside) / len(beside)
            column.sort(key=lambda place: middles[id(place)])
            for number, place in enumerate(column):
                place.y = float(number - len(column) / 2)
    for column in columns:
        for number, place in enumerate(column):
            place.y = number * float(HEIGHT + GAP_Y)


def _align(columns: Sequence[list[_Place]], *, to_the_right: bool) -> None:
    """Move places to the middle of their neighbours, as far as their order and size allow."""
    for column in columns if to_the_right else reversed(columns):
        wanted = []
        for place in column:
            beside = place.left if to_the_right else place.right
            wanted.append(sum(each.y for each in beside) / len(beside) if beside else place.y)
        previous: _Place | None = None
        for place, middle in zip(column, wanted, strict=True):
            least = middle
            if previous is not None:
                least = previous.y + (previous.height + place.height) / 2 + GAP_Y
            place.y = max(middle, least)
            previous = place
        moved = sum(middle - place.y for place, middle in zip(column, wanted, strict=True)) / max(len(column), 1)
        for place in column:
            place.y += moved


def _line(way: Sequence[tuple[int, _Place]]) -> str:
    """Return a line as a path: from the right of a box to the left of another one, straight past the others."""
    column, place = way[0]
    x = MARGIN + column * (WIDTH + GAP_X) + WIDTH
    parts, y = [f"M{x},{round(place.y)}"], round(place.y)
    for number, (column, place) in enumerate(way[1:], 2):
        end, height = MARGIN + column * (WIDTH + GAP_X), round(place.y)
        bend = (end - x) // 2
        parts.append(f"C{x + bend},{y} {end - bend},{height} {end},{height}")
        x, y = end, height
        if number < len(way):
            x += WIDTH
            parts.append(f"H{x}")
    return " ".join(parts)
