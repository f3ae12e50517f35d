"""The backend of Django's tasks, which publishes in the caller's transaction."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from django.core import checks
from django.utils import timezone
from django.utils.functional import cached_property

from django_mq import conf
from django_mq.delivery import queues
from django_mq.delivery.publisher import fairness_in, publish
from django_mq.engine.decisions.interruption import problems_of_limits
from django_mq.engine.decisions.unique import by_arguments
from django_mq.engine.options import WHAT_A_NAME_IS, is_name
from django_mq.errors import ConfigurationError
from django_mq.integrations.tasks import compat
from django_mq.integrations.tasks.envelope import bound, pack, priority_of, time_of
from django_mq.integrations.tasks.options import MQTask, published
from django_mq.stores.registry import MEMORY, shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID


AGREE = "Give both the same OPTIONS, or each a queue of its own."


class MQBackend(compat.BaseTaskBackend):  # type: ignore[misc] # it is Django's, or the package's
    """Tasks as durable messages, in the queues of ``QUEUES``, which are declared on first use."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    task_class = MQTask

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        queues.allow(self.queues)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Publish the task in the transaction that is open, and return its result, which is ready.

        Raises InvalidTask, TypeError for arguments that JSON cannot express, and what ``publish`` raises.
        """
        self.validate_task(task)
        envelope = pack(task, args, kwargs)
        message_id = self._publish(task, envelope)
        result = compat.TaskResult(
            task=task,
            id=str(message_id),
            status=compat.TaskResultStatus.READY,
            enqueued_at=conf.as_django(time_of(envelope, "enqueued_at")),
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=envelope["args"],
            kwargs=envelope["kwargs"],
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        compat.task_enqueued.send(type(self), task_result=result)
        return result

    def _publish(self, task: Any, envelope: dict[str, Any]) -> UUID:
        due = task.run_after
        if due is not None and timezone.is_naive(due):
            due = timezone.make_aware(due)
        given: dict[str, Any] = {"priority": priority_of(task.priority), "deliver_at": due}
        given |= {"type": task.module_path[:255], "using": self.database}
        given |= published(task)
        given |= self._keyed(task, envelope, given.get("headers"))
        if "unique" in given:
            given["unique"] = by_arguments(given["unique"], task.module_path, bound(task, envelope))
        return publish(task.queue_name, envelope, **given)

    def _keyed(self, task: Any, envelope: dict[str, Any], headers: Any) -> dict[str, Any]:
        """In a queue that keys share, an argument of a task is the key if no header is."""
        fair = fairness_in(shared_store(self.database), task.queue_name)
        arguments: dict[str, Any] = {}
        if fair is not None:
            with suppress(TypeError):  # the task says what is wrong with its arguments when it runs
                arguments = bound(task, envelope)
        return {} if fair is None else {"headers": fair.with_key(headers or {}, arguments.get(fair.header))}

    def get_result(self, result_id: str) -> Any:
        """Return the result of a task. Raises TaskResultDoesNotExist."""
        from django_mq.integrations.tasks.results import find_result  # noqa: PLC0415 - models, not loaded at @task

        return find_result(result_id, using=self.database)

    @property
    def database(self) -> str:
        return conf.load().DATABASE

    @cached_property
    def our_options(self) -> BackendOptions:
        """OPTIONS, checked. Raises ConfigurationError."""
        return BackendOptions.read(self.options)

    def check(self, **_: Any) -> Iterator[checks.CheckMessage]:
        """Report settings with which a worker could not run tasks, as E008."""
        if not self.queues:
            yield self._error("QUEUES is empty", "Name the queues: a worker must know which ones to take from.")
        if wrong := [name for name in self.queues if not is_name(name)]:
            yield self._error(f"{str(wrong[0])[:40]!r} cannot be a queue", f"{WHAT_A_NAME_IS}.".capitalize())
        try:
            in_memory = self.our_options is not None and self.database == MEMORY
        except ConfigurationError as error:
            yield self._error(str(error).rstrip("."), "Correct OPTIONS of this backend in TASKS.")
            return
        if in_memory:
            hint = "Use a database, or, in tests, one of Django's own backends."
            yield self._error("the queues are in memory, where results are not kept", hint)
        if contradiction := self.contradiction():
            yield self._error(contradiction, AGREE)

    def contradiction(self) -> str | None:
        """Return which earlier backend gives a queue of both another handler than this one does, None if none."""
        ours = self.our_options.of_queue
        for other in our_backends():
            if other.alias == self.alias:
                return None
            shared = self.queues & other.queues
            try:
                theirs = other.our_options.of_queue
            except ConfigurationError:
                continue  # its own check says it
            if shared and (name := next((name for name in ours if ours[name] != theirs[name]), None)):
                return (
                    f"{name.upper()} is {ours[name]!r}, but {theirs[name]!r} in TASKS[{other.alias!r}], and both"
                    f" have the queue {min(shared)!r}, which has one handler"
                )
        return None

    def _error(self, what: str, hint: str) -> checks.CheckMessage:
        return checks.Error(f"TASKS[{self.alias!r}]: {what}.", hint=hint, id="django_mq.E008")


def our_backends() -> Iterator[MQBackend]:
    """Yield the backends of TASKS that are django_mq's, in the order of TASKS."""
    for alias in compat.task_backends:
        backend = compat.task_backends[alias]
        if isinstance(backend, MQBackend):
            yield backend


def result_days(alias: str) -> float:
    """Return how long the backend of this alias keeps results; the default if there is no such backend here."""
    for backend in our_backends():
        if backend.alias == alias:
            return backend.our_options.RESULT_DAYS
    return BackendOptions().RESULT_DAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """``TASKS[...]["OPTIONS"]``, described in docs/how-to/messages/django-tasks.md."""

    CREDIT: int | None = None
    TIME_LIMIT_SECONDS: float | None = None
    SOFT_TIME_LIMIT_SECONDS: float | None = None
    TRANSACTIONAL: bool = False
    ASYNC: bool = False
    RESULT_DAYS: float = 7.0

    @property
    def of_handler(self) -> dict[str, Any]:
        """The options of the handler of the backend's queues."""
        return {
            "credit": self.CREDIT,
            "time_limit_seconds": self.TIME_LIMIT_SECONDS,
            "soft_time_limit_seconds": self.SOFT_TIME_LIMIT_SECONDS,
            "transactional": self.TRANSACTIONAL,
        }

    @property
    def of_queue(self) -> dict[str, Any]:
        """What backends that share a queue must agree about."""
        return {**self.of_handler, "async": self.ASYNC}

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> BackendOptions:
        """Return the options. Raises ConfigurationError."""
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(given) - set(known)):
            raise ConfigurationError(f"OPTIONS has no {unknown[0]!r}; it may have {', '.join(known)}.")
        options = cls(**given)
        credit = options.CREDIT
        if credit is not None and (not _is_number(credit) or credit < 1):
            raise ConfigurationError(f"CREDIT is {credit!r}; use 1 or more.")
        limits = problems_of_limits(options.TIME_LIMIT_SECONDS, options.SOFT_TIME_LIMIT_SECONDS)
        if (problem := next(limits, None)) is not None:
            raise ConfigurationError(f"These time limits cannot be: {problem}.")
        if not isinstance(options.ASYNC, bool):
            raise ConfigurationError(f"ASYNC is {options.ASYNC!r}; use True or False.")
        if options.ASYNC and options.TRANSACTIONAL:
            raise ConfigurationError(
                "ASYNC and TRANSACTIONAL are True, but Django has no transactions in async code; leave one out."
            )
        if not _is_number(options.RESULT_DAYS) or not 0 <= options.RESULT_DAYS <= 36500:
            raise ConfigurationError(f"RESULT_DAYS is {options.RESULT_DAYS!r}; use 0 to 36500 days.")
        return options


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
