"""The settings of a simulated queue and its workers."""

from __future__ import annotations

from dataclasses import dataclass, fields

from django_mq.engine.levels import MOST_LEVELS
from django_mq.errors import PipelineError

KINDS = ("priority", "fifo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One set of settings; the defaults are one consumer that takes one message at a time."""

    name: str
    #: The order of the queue: its scheduling policy.
    kind: str = "priority"
    levels: int = MOST_LEVELS
    #: How many messages are worked on at once.
    consumers: int = 1
    #: How many messages a consumer holds, the one it works on included.
    credit: int = 1
    #: Times at work are multiplied by this, 0.5 being workers twice as fast.
    service: float = 1.0
    #: Messages come so many times as fast.
    arrivals: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PipelineError(f"Scenario {self.name!r}: kind is {self.kind!r}; use {' or '.join(KINDS)}.")
        for name in ("levels", "consumers", "credit", "service", "arrivals"):
            if not getattr(self, name) > 0:
                raise PipelineError(f"Scenario {self.name!r}: {name} is {getattr(self, name)}; use more than 0.")
        if self.levels > MOST_LEVELS:
            raise PipelineError(f"Scenario {self.name!r}: levels is {self.levels}; use 1 to {MOST_LEVELS}.")


def parse(text: str) -> Scenario:
    """Return the scenario that ``name:consumers=4,kind=fifo`` describes. Raises PipelineError."""
    name, _, rest = text.partition(":")
    types = {item.name: item.type for item in fields(Scenario) if item.name != "name"}
    given: dict[str, str | int | float] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in types:
            raise PipelineError(f"Scenario {name!r}: there is no setting {key!r}; use {', '.join(types)}.")
        try:
            given[key] = {"int": int, "float": float}.get(str(types[key]), str)(value)
        except ValueError:
            raise PipelineError(f"Scenario {name!r}: {key} is {value!r}; it has to be a number.") from None
    return Scenario(name=name, **given)  # type: ignore[arg-type] # the fields' own types, as read above
