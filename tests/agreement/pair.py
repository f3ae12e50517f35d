"""Two sites that perform the same history: the memory store is the oracle."""

from __future__ import annotations

import time
from functools import partial
from pprint import pformat
from typing import TYPE_CHECKING, Any

from django_mq import conf, limits
from django_mq.stores.registry import MEMORY
from tests.agreement.history import QUEUES
from tests.agreement.site import EXTENSION, Site, now

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tests.agreement.coverage import Coverage
    from tests.agreement.history import History

#: What does not depend on how fast the machine is, ends here: then times may cross.
LONGEST_REAL_SECONDS = 40.0


class Disagreement(Exception):  # noqa: N818 - it is what is looked for
    """The two stores differ after an operation."""

    def __init__(self, history: History, step: int, what: str, answers: tuple[Any, Any]) -> None:
        self.history, self.step, self.what, self.answers = history, step, what, answers
        super().__init__(f"{what} after step {step}")

    def __str__(self) -> str:
        operation = self.history.operations[self.step] if self.history.operations else None
        memory, other = self.answers
        return "\n".join(
            [f"{self.what} differs after step {self.step}, {operation!r}:", *_differences(memory, other)]
        )


class Pair:
    """The memory store and another one."""

    def __init__(self, alias: str) -> None:
        self.sites = Site(MEMORY), Site(alias)

    def play(self, history: History, coverage: Coverage | None = None) -> int:
        """Perform a history; return how many operations were performed. Raises Disagreement."""
        began, base = time.monotonic(), now()
        self._declare(history)
        for site in self.sites:
            site.begin(history, base)
        for step, (name, given) in enumerate(history.operations):
            if time.monotonic() - began > LONGEST_REAL_SECONDS:
                return step
            answer = self._same(history, step, "answer", partial(Site.perform, name=name, given=given))
            view = self._same(history, step, "state", Site.look)
            if coverage is not None:
                coverage.note(name, given, answer, view)
        return len(history.operations)

    def _declare(self, history: History | None = None) -> None:
        """Declare the limits by key of a history, and those of no other."""
        for queue in QUEUES:
            limits.declared.forget(queue)
        conf.remove_extension(limits.declared.NAME)
        for queue, some in history.limits.items() if history is not None else ():
            for kind, given in some:
                getattr(limits, kind)(queue, **given)

    def _same(self, history: History, step: int, what: str, ask: Any) -> Any:
        answers = tuple(_answer(ask, site) for site in self.sites)
        if answers[0] != answers[1]:
            raise Disagreement(history, step, what, answers)
        if isinstance(answers[0], _Crash):
            raise Disagreement(history, step, what, (answers[0].text, "(the same)"))
        return answers[0]

    def __enter__(self) -> Self:
        conf.add_extension(EXTENSION)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        conf.remove_extension(EXTENSION.name)
        self._declare()
        for site in self.sites:
            site.close()


class _Crash:
    """An error that no store may raise; equal to no other answer."""

    def __init__(self, error: Exception) -> None:
        self.text = f"{type(error).__name__}: {error}"
        self.error = error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Crash) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self.text


def _answer(ask: Any, site: Site) -> Any:
    try:
        return ask(site)
    except Exception as error:  # noqa: BLE001 - each error of a store is an answer to compare
        return _Crash(error)


def _differences(memory: Any, other: Any, path: str = "") -> list[str]:
    """Say where two answers differ, as deep as can be."""
    if isinstance(memory, dict) and isinstance(other, dict):
        keys = [*memory, *(key for key in other if key not in memory)]
        return [line for key in keys for line in _differences(memory.get(key), other.get(key), f"{path}[{key!r}]")]
    if isinstance(memory, list) and isinstance(other, list) and len(memory) == len(other):
        pairs = enumerate(zip(memory, other, strict=True))
        return [line for index, (one, two) in pairs for line in _differences(one, two, f"{path}[{index}]")]
    if memory == other:
        return []
    if isinstance(memory, list) and isinstance(other, list):
        memory, other = ([_named(item) for item in answer] for answer in (memory, other))
    return [
        f"  {path or 'all'}",
        f"    memory: {pformat(memory, width=110)}",
        f"    store:  {pformat(other, width=110)}",
    ]


def _named(item: Any) -> Any:
    """A message, or its number, by which it can be told where a list has another length."""
    return item["number"] if isinstance(item, dict) and "number" in item else item
