"""The settings of a simulated queue and its workers."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final

from django_mq.engine.options import OPTIONS, QueueOptions
from django_mq.errors import PipelineError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ("priority", "fifo")
#: The options of a simulated queue. The others need facts that the history does not have, such as groups.
SIMULATED: Final = (
    "kind",
    "levels",
    "due_order",
    "max_attempts",
    "backoff_seconds",
    "backoff_multiplier",
    "backoff_cap_seconds",
    "backoff_ticks_per_second",
    "dead_letter_queue",
    "max_messages",
    "overflow",
    "wait_seconds",
    "ttl_seconds",
    "min_ttl_seconds",
    "max_ttl_seconds",
    "expiry_queue",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One set of settings; the defaults are one consumer that takes one message at a time.

    Raises PipelineError for wrong settings, and for those that cannot be simulated.
    """

    name: str
    #: How many messages are handled at once.
    consumers: int = 1
    #: How many messages a consumer holds, the one that it handles included.
    credit: int = 1
    #: Factor of the handling times: 0.5 means workers twice as fast.
    service: float = 1.0
    #: How many times as fast messages arrive.
    arrivals: float = 1.0
    #: The share of deliveries that fail, 0 to 1, drawn at random; the same deliveries in every scenario.
    failures: float = 0.0
    #: The options of the queue, of those that can be ``SIMULATED``.
    queue: QueueOptions = field(default_factory=QueueOptions)

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise PipelineError(f"Scenario {self.name!r}: {problem}.")

    def _problems(self) -> Iterator[str]:
        for name in ("consumers", "credit", "service", "arrivals"):
            if not getattr(self, name) > 0:
                yield f"{name} is {getattr(self, name)}; use more than 0"
        if not 0 <= self.failures <= 1:
            yield f"failures is {self.failures}; use 0 to 1"
        if self.queue.kind not in KINDS:
            yield f"kind is {self.queue.kind!r}; use {' or '.join(KINDS)}"
        yield from self.queue.problems()
        yield from self.queue.contradictions()
        plain = QueueOptions()
        for item in fields(self.queue):
            value = getattr(self.queue, item.name)
            if item.name not in SIMULATED and value != getattr(plain, item.name):
                yield f"{item.name} is {shown(value)}, and cannot be simulated; leave it out"
        if self.failures == 1 and not self.queue.max_attempts:
            yield "every delivery fails, and max_attempts is 0: no message would ever be done"


def simulated(options: QueueOptions) -> QueueOptions:
    """Return a queue's options that can be simulated; of its limits, that of messages."""
    known = {name: getattr(options, name) for name in SIMULATED}
    if options.max_messages is None:
        del known["overflow"]
    return QueueOptions(**known)


def parse(text: str) -> Scenario:
    """Return the scenario of a text such as ``name:consumers=4,kind=fifo``. Raises PipelineError."""
    name, _, rest = text.partition(":")
    types = {item.name: str(item.type) for item in fields(Scenario) if item.name not in {"name", "queue"}}
    own: dict[str, str | int | float] = {}
    options: dict[str, str | int | float] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in types and key not in SIMULATED:
            known = ", ".join((*types, *SIMULATED))
            raise PipelineError(f"Scenario {name!r}: there is no setting {key!r}; use {known}.")
        given, wanted = (own, types[key]) if key in types else (options, OPTIONS[key].base_type)
        try:
            given[key] = {"int": int, "float": float}.get(wanted, str)(value)
        except ValueError:
            raise PipelineError(f"Scenario {name!r}: {key} is {value!r}; it has to be a number.") from None
    # The values have the fields' types.
    return Scenario(name=name, queue=QueueOptions(**options), **own)  # type: ignore[arg-type]
