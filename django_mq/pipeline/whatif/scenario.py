"""The settings of a simulated queue and its workers."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django_mq.engine.decisions.keyed_limits import HEADER, Concurrency, KeyedLimit, Throttle
from django_mq.engine.decisions.rates import Rate
from django_mq.engine.decisions.unique import Unique
from django_mq.engine.options import OPTIONS, QueueOptions
from django_mq.errors import OutOfRange, PipelineError, shown
from django_mq.pipeline.whatif.keys import FAIR
from django_mq.pipeline.whatif.unique import UniqueBy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from django_mq.engine.decisions.keyed_limits import Allowed, LimitedKey

T = TypeVar("T")
KINDS = ("priority", "fifo")
#: The options of a simulated queue. The others need facts that the history does not have, such as groups.
SIMULATED: Final = (
    "kind",
    "levels",
    "fair_by",
    "fair_weights",
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


#: Limits by key, and what each is written as. The key follows behind a space.
LIMITS: Final = {
    "throttle": "AMOUNT/SECONDS or AMOUNT/SECONDS/BURST",
    "rate_limit": "AMOUNT/SECONDS or AMOUNT/SECONDS/BURST",
    "concurrency": "a number",
}
#: The settings of unique messages, each with the argument of ``Unique`` and its type. The setting ``unique`` is
#: the key.
UNIQUE: Final = {
    "unique_until": ("until", "str"),
    "unique_seconds": ("seconds", "float"),
    "unique_second": ("second", "str"),
    "debounce_seconds": ("debounce_seconds", "float"),
    "debounce_at_most_seconds": ("at_most_seconds", "float"),
}


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
    #: The limits by key, and what operators allow single keys.
    limits: Sequence[KeyedLimit] = ()
    allowed: Mapping[LimitedKey, Allowed] = field(default_factory=dict)
    #: How messages are unique.
    unique: UniqueBy | None = None

    @property
    def has_key_rules(self) -> bool:
        """Whether messages have limits by key, or are unique."""
        return bool(self.limits) or self.unique is not None

    @property
    def keys(self) -> list[str]:
        """The keys that are read from messages, in the words of limits by key."""
        found = [f"{FAIR}{self.queue.fair_by}"] if self.queue.fair_by else []
        for limit in self.limits:
            found += [limit.key] if limit.key else []
            found += [f"{HEADER}{limit.weight}"] if isinstance(limit, Throttle) and limit.weight else []
        found += [] if self.unique is None else [self.unique.key]
        return found + ["type" for limit in self.limits if limit.type]

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
        yield from self._problems_of_keys()
        if self.failures == 1 and not self.queue.max_attempts:
            yield "every delivery fails, and max_attempts is 0: no message would ever be done"

    def _problems_of_keys(self) -> Iterator[str]:
        for limit in self.limits:
            if (problem := limit.problem_in(self.queue)) is not None:
                yield problem.rstrip(".")
        if self.unique is not None:
            yield from (f"unique: {problem.rstrip('.')}" for problem in self.unique.rule.problems())


def simulated(options: QueueOptions) -> QueueOptions:
    """Return a queue's options that can be simulated; of its limits, that of messages."""
    known = {name: getattr(options, name) for name in SIMULATED}
    if options.max_messages is None:
        del known["overflow"]
    return QueueOptions(**known)


def parse(text: str) -> Scenario:
    """Return the scenario of a text such as ``name:consumers=4,kind=fifo``. Raises PipelineError."""
    name, _, rest = text.partition(":")
    try:
        return Scenario(
            name=name, **_settings([pair.partition("=")[::2] for pair in filter(None, rest.split(","))])
        )
    except _SettingError as error:
        raise PipelineError(f"Scenario {name!r}: {error}.") from None


class _SettingError(ValueError):
    """A setting that cannot be read."""


def _settings(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the fields of a scenario."""
    known = (*NUMBERS, *SIMULATED, *LIMITS, "unique", *UNIQUE)
    own: dict[str, Any] = {}
    options: dict[str, Any] = {}
    unique: dict[str, Any] = {}
    limits: list[KeyedLimit] = []
    for key, value in pairs:
        if key in LIMITS:
            limits.append(_limit(key, value, number=len(limits) + 1))
        elif key == "fair_weights":
            options[key] = value.replace(";", "\n")
        elif key in SIMULATED:
            options[key] = _value(key, value, OPTIONS[key].base_type)
        elif key in UNIQUE:
            argument, kind = UNIQUE[key]
            unique[argument] = _value(key, value, kind)
        elif key == "unique":
            own[key] = value
        elif key in NUMBERS:
            own[key] = _value(key, value, NUMBERS[key])
        else:
            raise _SettingError(f"there is no setting {key!r}; use {', '.join(known)}")
    if unique and "unique" not in own:
        raise _SettingError("it says how messages are unique, but not by which key; add unique=KEY")
    if "unique" in own:
        own["unique"] = UniqueBy(_key_of_unique(own["unique"]), Unique(**unique))
    return {"queue": QueueOptions(**options), "limits": tuple(limits), **own}


#: The settings that are numbers, each with its type.
NUMBERS: Final = {item.name: str(item.type) for item in fields(Scenario) if item.type in {"int", "float"}}


def _value(name: str, text: str, kind: str) -> Any:
    try:
        return {"int": int, "float": float}.get(kind, str)(text)
    except ValueError:
        raise _SettingError(f"{name} is {text!r}; it has to be a number") from None


def _key_of_unique(key: str) -> str:
    if not key:
        raise _SettingError("unique has no key; use type, or header:, body: or argument: with a name")
    return _made(KeyedLimit, name="unique", key=key).key


def _made(kind: Callable[..., T], *args: Any, **named: Any) -> T:
    """Return a value of the engine. Raises _SettingError with its error."""
    try:
        return kind(*args, **named)
    except OutOfRange as error:
        raise _SettingError(str(error).rstrip(".")) from None


def _limit(kind: str, text: str, *, number: int) -> KeyedLimit:
    """Return a limit such as ``10/60 header:tenant``."""
    said, _, key = text.partition(" ")
    name = f"{kind}{number}"
    try:
        numbers = [int(said)] if kind == "concurrency" else [*map(float, said.split("/"))]
    except ValueError:
        numbers = []
    if not (len(numbers) == 1 if kind == "concurrency" else 2 <= len(numbers) <= 3):
        raise _SettingError(f"{kind} is {text!r}; write {LIMITS[kind]}, then a space and the key if it has one")
    if kind == "concurrency":
        return _made(Concurrency, name=name, at_once=numbers[0], key=key)
    rate = _made(Rate, *numbers)
    return _made(Throttle, name=name, rate=rate, key=key, drops=kind == "rate_limit")
