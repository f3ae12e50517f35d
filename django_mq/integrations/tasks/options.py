"""What a task says beyond Django's interface: by ``@options`` below ``@task``, and by ``using()``.

The names and rules are those of ``@consumer``. What ``using()`` says travels in the envelope, and holds over what
``@options`` says. Classes and functions are code, which no message carries: only ``@options`` takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django_mq.engine.decisions.interruption import problems_of_limits
from django_mq.engine.decisions.retries import BY_CLASS, OF_THE_QUEUE, RELEASE_SECONDS, Retries
from django_mq.engine.decisions.unique import Unique
from django_mq.errors import ConfigurationError, shown
from django_mq.integrations.tasks import compat

if TYPE_CHECKING:
    from django_mq.engine.decisions.retries import BackoffFunction, BackoffKind, Errors

Function = TypeVar("Function", bound=Callable[..., Any])

#: Where a function has the options of its task.
ATTRIBUTE: Final = "django_mq_options"
LIMITS: Final = ("time_limit_seconds", "soft_time_limit_seconds")
RETRIES: Final = tuple(each.name for each in fields(Retries))
#: What the envelope has of the options.
CARRIED: Final = tuple(name for name in (*LIMITS, *RETRIES) if name not in BY_CLASS)
#: What ``publish`` is given.
PUBLISHED: Final = ("group_key", "headers", "unique")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRules:
    """What holds for the attempts of a task."""

    time_limit_seconds: float | None = None
    soft_time_limit_seconds: float | None = None
    retries: Retries | None = field(default=None, hash=False)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> TaskRules:
        """Return the rules. Raises ConfigurationError for impossible ones."""
        retries = Retries(**{name: given[name] for name in RETRIES if name in given})
        limits = [given.get(name) for name in LIMITS]
        problems = chain(retries.problems(), problems_of_limits(*limits), _problems_of_unique(given.get("unique")))
        if (problem := next(problems, None)) is not None:
            raise ConfigurationError(f"A task cannot have these options: {problem}.")
        own = None if retries == OF_THE_QUEUE else retries
        return cls(time_limit_seconds=limits[0], soft_time_limit_seconds=limits[1], retries=own)


def _problems_of_unique(rule: Any) -> Iterator[str]:
    if rule is not None and not isinstance(rule, Unique):
        yield f"unique is {shown(rule)}; give a Unique"
    elif rule is not None:
        yield from (f"unique: {problem.rstrip('.')}" for problem in rule.problems())


def options(
    *,
    max_attempts: int | None = None,
    backoff: BackoffKind | BackoffFunction | None = None,
    backoff_seconds: float | None = None,
    backoff_multiplier: float | None = None,
    backoff_cap_seconds: float | None = None,
    backoff_jitter: float | None = None,
    retry_on: Errors = (),
    reject_on: Errors = (),
    release_on: Errors = (),
    release_seconds: float = RELEASE_SECONDS,
    retry_within_seconds: float | None = None,
    time_limit_seconds: float | None = None,
    soft_time_limit_seconds: float | None = None,
    group_key: str | None = None,
    headers: Mapping[str, Any] | None = None,
    unique: Unique | None = None,
) -> Callable[[Function], Function]:
    """Give the function of a task options that ``@consumer`` has, too; write it below Django's ``@task``.

    They hold over those of the queue and of the backend. Other backends ignore them. Tasks of one ``group_key``
    run one after the other, if their queue has groups. Selectors see the ``headers``. ``unique`` says what happens
    to the second task with a key: if it is dropped, or replaces the first one, ``enqueue()`` returns a result with
    the id of that one.

    Raises ConfigurationError for impossible options, and above ``@task``.
    """
    given = {
        "max_attempts": max_attempts,
        "backoff": backoff,
        "backoff_seconds": backoff_seconds,
        "backoff_multiplier": backoff_multiplier,
        "backoff_cap_seconds": backoff_cap_seconds,
        "backoff_jitter": backoff_jitter,
        "retry_on": retry_on or None,
        "reject_on": reject_on or None,
        "release_on": release_on or None,
        "release_seconds": None if release_seconds == RELEASE_SECONDS else release_seconds,
        "retry_within_seconds": retry_within_seconds,
        "time_limit_seconds": time_limit_seconds,
        "soft_time_limit_seconds": soft_time_limit_seconds,
        "group_key": group_key,
        "headers": headers,
        "unique": unique,
    }
    own = {name: value for name, value in given.items() if value is not None}
    TaskRules.of(own)

    def mark(function: Function) -> Function:
        if isinstance(function, compat.Task) or not callable(function):
            raise ConfigurationError(
                f"@options is given {shown(function)}; write it below @task, above the function."
            )
        setattr(function, ATTRIBUTE, own)
        return function

    return mark


@dataclass(frozen=True, slots=True, kw_only=True)
class MQTask(compat.Task):  # type: ignore[misc] # it is Django's, or the package's
    """A task whose ``using()`` takes options of ours, too."""

    #: What ``using()`` was given of them.
    given: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: Any = None,
        backend: str | None = None,
        max_attempts: int | None = None,
        backoff: BackoffKind | None = None,
        backoff_seconds: float | None = None,
        backoff_multiplier: float | None = None,
        backoff_cap_seconds: float | None = None,
        backoff_jitter: float | None = None,
        release_seconds: float | None = None,
        retry_within_seconds: float | None = None,
        time_limit_seconds: float | None = None,
        soft_time_limit_seconds: float | None = None,
        group_key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        unique: Unique | None = None,
    ) -> MQTask:
        """Return a task with other options; None leaves one as it is. Raises ConfigurationError."""
        if callable(backoff):
            raise ConfigurationError(
                f"backoff of {self.module_path} is {shown(backoff)}, which no message can carry; write it into"
                " @options."
            )
        django = {"priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend}
        ours = {
            "max_attempts": max_attempts,
            "backoff": backoff,
            "backoff_seconds": backoff_seconds,
            "backoff_multiplier": backoff_multiplier,
            "backoff_cap_seconds": backoff_cap_seconds,
            "backoff_jitter": backoff_jitter,
            "release_seconds": release_seconds,
            "retry_within_seconds": retry_within_seconds,
            "time_limit_seconds": time_limit_seconds,
            "soft_time_limit_seconds": soft_time_limit_seconds,
            "group_key": group_key,
            "headers": headers,
            "unique": unique,
        }
        changes = {name: value for name, value in django.items() if value is not None}
        if own := {name: value for name, value in ours.items() if value is not None}:
            changes["given"] = _over(self.given, own)
            TaskRules.of(_over(_of_function(self.func), changes["given"]))
        return replace(self, **changes)


def _of_function(function: Any) -> Mapping[str, Any]:
    own: Mapping[str, Any] = getattr(function, ATTRIBUTE, {})
    return own


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; headers are added to those that are there."""
    both = {**below, **above}
    headers = [each["headers"] for each in (below, above) if isinstance(each.get("headers"), Mapping)]
    return both | {"headers": {**headers[0], **headers[1]}} if len(headers) == 2 else both


def given_to(task: Any) -> Mapping[str, Any]:
    """Return what ``using()`` was given; a task of another backend has nothing."""
    given: Mapping[str, Any] = getattr(task, "given", {})
    return given


def carried(task: Any) -> dict[str, Any]:
    """Return the options that the envelope of a task carries."""
    return {name: value for name, value in given_to(task).items() if name in CARRIED}


def published(task: Any) -> dict[str, Any]:
    """Return the options with which a task is published."""
    given = _over(_of_function(task.func), given_to(task))
    return {name: given[name] for name in PUBLISHED if name in given}


@lru_cache(maxsize=1000)
def _rules(function: Any, given: frozenset[tuple[str, Any]]) -> TaskRules:
    return TaskRules.of(_over(_of_function(function), dict(given)))


def rules_of(task: Any, given: Mapping[str, Any]) -> TaskRules:
    """Return the rules of a task whose envelope carries these options. Raises ConfigurationError and TypeError."""
    return _rules(task.func, frozenset(given.items()))
