"""What a handler says of its failed attempts, over the rules of its queue."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from django_mq.engine.decisions.backoff import Backoff
from django_mq.engine.decisions.places import PLACE_OFFSET
from django_mq.engine.decisions.verdict import Ending, ending_of
from django_mq.engine.options import OPTIONS, Option
from django_mq.errors import ChosenOutcome, WorkerLost, shown

if TYPE_CHECKING:
    from datetime import timedelta

    from django_mq.engine.decisions.verdict import Delays, Policy

#: Returns the delay after a failed attempt, from its number and its error; None for the queue's backoff.
BackoffFunction: TypeAlias = Callable[[int, BaseException], "timedelta | float | None"]
BackoffKind: TypeAlias = Literal["constant", "linear", "exponential"]
#: One class of exceptions, or several.
Errors: TypeAlias = "type[Exception] | tuple[type[Exception], ...] | list[type[Exception]]"

KINDS: Final = ("constant", "linear", "exponential")
#: The factor of an exponential backoff.
DOUBLE: Final = 2.0
#: The options that a queue has, too.
OF_QUEUE: Final = (
    "max_attempts",
    "backoff_seconds",
    "backoff_multiplier",
    "backoff_cap_seconds",
    "backoff_jitter",
)
#: The options that say which errors end an attempt how.
BY_CLASS: Final = {"retry_on": Ending.FAILED, "reject_on": Ending.REJECTED, "release_on": Ending.RELEASED}
#: The options of handlers only that are a number of seconds.
OWN_SECONDS: Final = tuple(
    Option(name=name, type=annotation, help=meaning, least=0.001)
    for name, annotation, meaning in (
        ("release_seconds", "float", "Delay of a message that is given back because of its error."),
        ("retry_within_seconds", "float | None", "Time after which no retry begins."),
    )
)
#: The property that counts how often a message was given back for a while without an attempt.
RELEASES: Final = "mq_releases"
#: The delay of a message that is given back because of the class of its error.
RELEASE_SECONDS: Final = 60.0


class OwnPolicy(NamedTuple):
    """The rules for failed deliveries of one handler."""

    max_attempts: int | None
    backoff: Delays


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """The options of a handler for its failures. None leaves a rule to the queue."""

    max_attempts: int | None = None
    backoff: BackoffKind | BackoffFunction | None = None
    backoff_seconds: float | None = None
    backoff_multiplier: float | None = None
    backoff_cap_seconds: float | None = None
    backoff_jitter: float | None = None
    retry_on: Errors = ()
    reject_on: Errors = ()
    release_on: Errors = ()
    release_seconds: float = RELEASE_SECONDS
    retry_within_seconds: float | None = None

    # What follows from the options.

    def over(self, queue: Policy) -> OwnPolicy:
        """Return the policy that holds: what the handler says, and otherwise the queue."""
        most = queue.max_attempts if self.max_attempts is None else self.max_attempts
        return OwnPolicy(
            most, self._backoff_over(queue.backoff if isinstance(queue.backoff, Backoff) else Backoff())
        )

    def _backoff_over(self, queue: Backoff) -> Backoff:
        base = queue.base_seconds if self.backoff_seconds is None else self.backoff_seconds
        multiplier, step = self.backoff_multiplier, 0.0
        if callable(self.backoff) or self.backoff is None:
            multiplier = queue.multiplier if multiplier is None else multiplier
        elif self.backoff == "exponential":
            multiplier = DOUBLE if multiplier is None else multiplier
        else:
            multiplier, step = 1.0, base if self.backoff == "linear" else 0.0
        # The cap of a queue does not shorten the first delay of a handler.
        cap = max(queue.cap, base) if self.backoff_cap_seconds is None else self.backoff_cap_seconds
        jitter = queue.jitter if self.backoff_jitter is None else self.backoff_jitter
        return Backoff(base, multiplier, cap, jitter, queue.ticks_per_second, step)

    def shaped(self, seconds: float) -> Backoff:
        """Return the backoff for a delay of the handler's function: the handler's cap and jitter apply."""
        return Backoff(seconds, cap_seconds=self.backoff_cap_seconds, jitter=self.backoff_jitter or 0.0)

    def ending_of(self, error: BaseException, *, cancelled: bool = False) -> Ending:
        """Return how an attempt ended that raised this error, by the most specific class that an option names."""
        ending = ending_of(error, cancelled=cancelled)
        if ending is not Ending.FAILED or isinstance(error, ChosenOutcome | WorkerLost):
            return ending
        named = {kind: how for name, how in BY_CLASS.items() for kind in classes_in(getattr(self, name))}
        for kind in type(error).__mro__:
            if kind in named:
                return named[kind]
        is_unlisted = bool(classes_in(self.retry_on)) and isinstance(error, Exception)
        return Ending.REJECTED if is_unlisted else Ending.FAILED

    def left_seconds(self, published: float, place: int, now: float) -> float | None:
        """Return the time in which a retry may begin; None without an end, and less than 0 after it.

        It counts from the publication, or from the later time for which the message was published, in seconds
        since 1970. A queue that serves due messages first has that time in their places.
        """
        if self.retry_within_seconds is None:
            return None
        due = (place + PLACE_OFFSET) / 1_000_000 if place < 0 else 0.0
        return (due if published < due <= now else published) + self.retry_within_seconds - now

    # Validation.

    def problems(self) -> Iterator[str]:
        """Yield a sentence for each value that cannot be, and for values that contradict each other."""
        for name in OF_QUEUE:
            value = getattr(self, name)
            if value is not None and (fault := OPTIONS[name].fault(value)) is not None:
                yield f"{name} is {shown(value)}; {fault}, or leave it out"
        for option in OWN_SECONDS:
            value = getattr(self, option.name)
            if (fault := option.fault(value)) is not None:
                yield f"{option.name} is {shown(value)}; {fault}"
        yield from self._problems_of_classes()
        yield from self._problems_of_backoff()

    def _problems_of_classes(self) -> Iterator[str]:
        named: dict[Any, str] = {}
        for name in BY_CLASS:
            value: Any = getattr(self, name)
            if not isinstance(value, type | tuple | list):
                yield f"{name} is {shown(value)}; give a class of exceptions, or a tuple of classes"
                continue
            kinds: tuple[Any, ...] = classes_in(value)
            for kind in kinds:
                if not (isinstance(kind, type) and issubclass(kind, Exception)):
                    yield f"{name} has {shown(kind)}, which is no class of exceptions"
                elif issubclass(kind, ChosenOutcome):
                    yield f"{name} has {kind.__name__}, which chooses an outcome by itself; leave it out"
                elif named.setdefault(kind, name) != name:
                    yield f"{kind.__name__} is in {named[kind]} and in {name}; leave it in one of them"

    def _problems_of_backoff(self) -> Iterator[str]:
        kind, base, cap = self.backoff, self.backoff_seconds, self.backoff_cap_seconds
        if callable(kind):
            if problem := _unfit(kind):
                yield f"backoff {problem}; give a function of the attempt's number and its error"
            for name in ("backoff_seconds", "backoff_multiplier"):
                if getattr(self, name) is not None:
                    yield f"{name} has no effect beside a function as backoff; remove one of them"
            return
        if kind is not None and kind not in KINDS:
            yield f"backoff is {shown(kind)}; use one of {', '.join(KINDS)}, or a function"
        elif kind in ("constant", "linear") and self.backoff_multiplier is not None:
            yield f"backoff_multiplier has no effect with backoff {kind!r}; remove one of them"
        if _is_number(base) and _is_number(cap) and cap < base:  # type: ignore[operator] # both are numbers
            yield f"backoff_cap_seconds is {cap!r}, below backoff_seconds, {base!r}"


#: The retries of a handler that leaves all rules to its queue.
OF_THE_QUEUE: Final = Retries()


def releases_in(properties: Mapping[str, object]) -> int:
    """Return how often a message with these properties was given back for a while without an attempt."""
    number = properties.get(RELEASES)
    return int(number) if isinstance(number, int | float) else 0


def classes_in(errors: Errors) -> tuple[type[Exception], ...]:
    """Return the classes that an option names."""
    return (errors,) if isinstance(errors, type) else tuple(errors)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _unfit(function: Callable[..., Any]) -> str | None:
    """Return why a function is no backoff, as the end of a sentence; None if it is one."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        return "does not run when it is called"
    try:
        inspect.signature(function).bind(1, Exception())
    except ValueError:
        return None  # some built-in callables have no signature
    except TypeError:
        return "cannot be called with two positional arguments"
    return None
