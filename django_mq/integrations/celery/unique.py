"""Unique tasks: a base class that returns the result of the first task where the second one is not published.

The id of a task is fixed before it is published, so only the task can return another one's result. The rule
travels in a header, by which a retry keeps its key. Its key is a digest of the arguments.
"""

from __future__ import annotations

import inspect
import json
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Final

from celery import Signature, Task

from django_mq.delivery.codecs import encode_json
from django_mq.delivery.validation import text
from django_mq.engine.decisions.unique import RUNS, Unique, by_arguments, claim_of
from django_mq.errors import ConfigurationError, InvalidMessage, shown
from django_mq.integrations.celery.failures import is_continuing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from django_mq.engine.decisions.unique import First, UniqueClaim
    from django_mq.stores.records import NewMessage

#: The header with the rule of a unique task.
UNIQUE: Final = "x-unique"
#: In this header: the task is acknowledged when it begins, and has its key until it is finished.
EARLY: Final = "acknowledged_early"
DEFAULT: Final = Unique()
FIELDS: Final = tuple(each.name for each in fields(Unique))
#: The options of what waits for a task, and what it is called.
FOLLOWERS: Final = {"chord": "chord", "chain": "chain", "link": "link", "group_id": "group"}

#: The tasks that have the keys of what is being published, by ``publishing``.
_met: ContextVar[list[First] | None] = ContextVar("django_mq_met", default=None)


@contextmanager
def publishing() -> Iterator[list[First]]:
    """Note the first messages that what is published inside has met."""
    met: list[First] = []
    token = _met.set(met)
    try:
        yield met
    finally:
        _met.reset(token)


def note(messages: Iterable[NewMessage]) -> None:
    """Tell the task that publishes these messages which first ones they have met."""
    met = _met.get()
    if met is not None:
        claims = [each.unique for each in messages if each.unique is not None]
        met += [claim.first for claim in claims if claim.first is not None]


def header_of(rule: Unique, task: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header for a rule and the arguments of a task. Raises InvalidMessage."""
    values = arguments if rule.key is not None else json.loads(encode_json(dict(arguments), "arguments"))
    keyed = by_arguments(rule, task, values)
    return {name: value for name in FIELDS if (value := getattr(keyed, name)) != getattr(DEFAULT, name)}


def mark_in(headers: Mapping[str, Any]) -> str | None:
    """Return the mark of a task whose message is gone when it begins, and that has its key until its run ends."""
    header = headers.get(UNIQUE)
    return RUNS if isinstance(header, dict) and header.get(EARLY) is True else None


def claim_in(headers: Mapping[str, Any], *, queue: str, owner: str) -> UniqueClaim | None:
    """Return what a task claims by its header. Raises InvalidMessage for a header that cannot be one."""
    header = headers.get(UNIQUE)
    if header is None:
        return None
    if isinstance(header, dict):
        header = {name: value for name, value in header.items() if name != EARLY}
    if not isinstance(header, dict) or not set(header) <= set(FIELDS) or not header.get("key"):
        raise _wrong(header)
    given: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in header.items()
    }
    rule = Unique(**given)
    if problem := next(rule.problems(), None):
        raise InvalidMessage(f"The header {UNIQUE}: {problem}")
    text(rule.key, f"The key in the header {UNIQUE}")
    task, continues = str(headers.get("task") or ""), is_continuing(headers)
    return claim_of(rule, queue=queue, type_=task, owner=owner, arguments=None, continues=continues)


def _wrong(header: object) -> InvalidMessage:
    return InvalidMessage(f"The header {UNIQUE} is {shown(header)}; let UniqueTask write it.")


class UniqueTask(Task):  # type: ignore[type-arg] # only its stubs are generic
    """The base class of unique tasks: ``@app.task(base=UniqueTask, unique=Unique(...))``.

    If a task is dropped, or replaces the first one with its key, ``delay`` and ``apply_async`` return the
    AsyncResult of that one. With ``task_always_eager``, tasks are not published, and so not unique.
    """

    abstract = True
    unique: ClassVar[Unique] = DEFAULT

    def apply_async(
        self, args: Any = None, kwargs: Any = None, task_id: str | None = None, *rest: Any, **options: Any
    ) -> Any:
        """Publish the task. The option ``unique`` is a rule for this call.

        Raises DuplicateMessage, UniqueKeyHeld and InvalidMessage.
        """
        rule = options.pop("unique", self.unique)
        if self.app.conf.task_always_eager or options.get("retries"):
            return super().apply_async(args, kwargs, task_id, *rest, **options)
        self._check(rule, options)
        header = header_of(rule, self.name, self._arguments(args or (), kwargs or {}))
        if rule.until == "finished" and not self.acks_late:
            header[EARLY] = True
        options["headers"] = {**(options.get("headers") or {}), UNIQUE: header}
        with publishing() as met:
            result = super().apply_async(args, kwargs, task_id, *rest, **options)
        return self.AsyncResult(met[0].owner) if met else result

    def replace(self, sig: Any) -> Any:
        """Let another task continue this one: it has the key of this one in the queue until its own end.

        A group, a chain or a chord has several tasks, and none of them has the key.
        """
        header = (self.request.headers or {}).get(UNIQUE)
        other = self.app.tasks.get(sig.task)
        is_one = other is not None and type(sig) is Signature
        if is_one and isinstance(header, dict) and header.get("within", DEFAULT.within) == "queue":
            rule = {name: value for name, value in header.items() if name != EARLY}
            if header.get("until", DEFAULT.until) == "finished" and not getattr(other, "acks_late", False):
                rule[EARLY] = True
            sig = sig.clone().set(headers={**(sig.options.get("headers") or {}), UNIQUE: rule})
        return super().replace(sig)

    def _check(self, rule: Any, options: Mapping[str, Any]) -> None:
        if not isinstance(rule, Unique):
            raise ConfigurationError(f"unique of task {self.name} is {shown(rule)}; give a Unique.")
        followers = [word for name, word in FOLLOWERS.items() if options.get(name)]
        if rule.second != "raise" and followers:
            raise InvalidMessage(
                f"Task {self.name} has a {followers[0]}, which would wait for ever if the task were not published."
                " Use second='raise'."
            )

    def _arguments(self, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = inspect.signature(self.run).bind(*args, **kwargs)
        except TypeError:
            return {"args": list(args), "kwargs": dict(kwargs)}  # Celery says what is wrong, if it checks
        bound.apply_defaults()
        return dict(bound.arguments)
