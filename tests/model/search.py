"""Exhaustive search of a model: every state that its steps lead to, breadth first, each once."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

S = TypeVar("S", bound="Hashable")


class Model(Protocol[S]):
    """A finite system: where it begins, what can happen next, and what must hold."""

    def start(self) -> S: ...

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """Yield what can happen in a state, each with the state after it. Raises Broken."""
        ...

    def canonical(self, state: S) -> S:
        """Return the state that stands for this one and its mirror image, in which two processes change places."""
        ...

    def mirrored(self, label: str) -> str:
        """Return the label of a step in the mirror image."""
        ...

    def check(self, state: S) -> None:
        """Check a state. Raises Broken."""
        ...

    def check_end(self, state: S) -> None:
        """Check a state in which nothing can happen any more. Raises Broken."""
        ...


class Broken(AssertionError):  # noqa: N818
    """A promise does not hold."""


@dataclass
class Found:
    """What a search has seen: which promise is ``broken``, and by which ``path``, the shortest."""

    states: int = 0
    transitions: int = 0
    ends: int = 0
    depth: int = 0
    interleavings: int = 0
    broken: str = ""
    path: list[str] = field(default_factory=list)
    labels: Counter[str] = field(default_factory=Counter)


class Search(Generic[S]):
    """One search of a model."""

    def __init__(self, model: Model[S]) -> None:
        self._model = model
        # States by their hash, which has 64 bits: ten million states meet by chance once in 400,000 searches.
        self._number: dict[int, int] = {}
        # By number of a state: the one before it, and where its successors begin in one array.
        self._before = array("q")
        self._successors, self._first = array("I"), array("Q")

    def run(self) -> Found:
        """Visit every state, or stop at the first that breaks a promise."""
        found, model = Found(), self._model
        start = model.canonical(model.start())
        self._add(hash(start), 0)
        layer = [start]
        while layer:
            following: list[S] = []
            for state in layer:
                number = self._number[hash(state)]
                self._first.append(len(self._successors))
                try:
                    model.check(state)
                    steps = [(label, model.canonical(after)) for label, after in model.steps(state)]
                    if not steps:
                        found.ends += 1
                        model.check_end(state)
                except Exception as error:  # noqa: BLE001 - a defect of the rules is a broken promise, too
                    found.states, found.broken = len(self._number), f"{type(error).__name__}: {error}"
                    found.path = self._path(number)
                    return found
                for label, after in steps:
                    found.labels[label.split(" ", 1)[-1]] += 1
                    name = hash(after)
                    if name not in self._number:
                        self._add(name, number)
                        following.append(after)
                    self._successors.append(self._number[name])
            layer = following
            found.depth += 1
        self._first.append(len(self._successors))
        found.states, found.transitions = len(self._number), len(self._successors)
        found.interleavings = self._interleavings()
        return found

    def _add(self, name: int, before: int) -> None:
        self._number[name] = len(self._number)
        self._before.append(before)

    def _path(self, number: int) -> list[str]:
        """Return the steps that lead to a state, each process under the name that it had at the start."""
        numbers = []
        while number:
            numbers.append(number)
            number = self._before[number]
        path, mirrored, state = list[str](), False, self._model.canonical(self._model.start())
        for number in reversed(numbers):
            for label, reached in self._model.steps(state):
                canonical = self._model.canonical(reached)
                if self._number.get(hash(canonical)) == number:
                    path.append(self._model.mirrored(label) if mirrored else label)
                    mirrored ^= canonical is not reached
                    state = canonical
                    break
        return path

    def _interleavings(self) -> int:
        """Return the number of ways from the start to an end. Raises Broken if the model can go in a circle."""
        count = len(self._number)
        entering = array("q", bytes(8 * count))
        for after in self._successors:
            entering[after] += 1
        ways: dict[int, int] = {0: 1}
        ready, done, total = [0], 0, 0
        while ready:
            number = ready.pop()
            done += 1
            mine = ways.pop(number)
            successors = self._successors[self._first[number] : self._first[number + 1]]
            total += 0 if successors else mine
            for after in successors:
                ways[after] = ways.get(after, 0) + mine
                entering[after] -= 1
                if not entering[after]:
                    ready.append(after)
        if done < count:
            raise Broken("the model can go in a circle")
        return total
