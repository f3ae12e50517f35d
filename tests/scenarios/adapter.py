"""What the runner and the vocabularies agree upon."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario, as the file has it."""

    id: str
    feature: str
    setup: Json
    steps: Sequence[Json]
    expect: Json
    #: What may be met instead of ``expect``; see ``judging``.
    alternative: object = None


@dataclass(frozen=True, slots=True)
class Check:
    """Expectations of one moment, and what was found then.

    All are flat: from a path, such as ``counts.q.ready``, to a value that must be equal. The
    adapter flattens, and brings into one order what may come in any. ``found`` has every path
    of ``expected`` and of ``alternative``, and may have more.
    """

    #: Which moment, in words.
    where: str
    expected: Json
    found: Json
    #: What may be met instead; None if there is none, or only in words.
    alternative: Json | None = None
    #: The alternative in words.
    note: str = ""
    #: Our documented choices that the words may be about. Without any, words excuse nothing.
    choices: Sequence[str] = ()
    #: Whether the alternative is that of the whole scenario: where it was met, what was expected
    #: on the way there is void.
    whole: bool = False


class Adapter(Protocol):
    """One vocabulary."""

    #: Its name, for people.
    name: str

    def speaks(self, vocabulary: Json) -> bool:
        """Whether a file with this vocabulary is for this adapter."""

    def run(self, scenario: Scenario) -> list[Check]:
        """Play a scenario from a clean beginning. Raises ScenarioError for one that cannot be read."""
