"""The names of Django's tasks framework, from Django or, before Django 6.0, from ``django-tasks``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

try:
    _tasks: Any = import_module("django.tasks")
except ModuleNotFoundError:
    _tasks = import_module("django_tasks")

_name: str = _tasks.__name__
_base: Any = import_module(f"{_name}.base")
_signals: Any = import_module(f"{_name}.signals")
_exceptions: Any = import_module(f"{_name}.exceptions")

BaseTaskBackend: Any = import_module(f"{_name}.backends.base").BaseTaskBackend
task: Any = _tasks.task
task_backends: Any = _tasks.task_backends
_json: Any = import_module("django.utils.json" if _name == "django.tasks" else f"{_name}.utils")
normalize_json: Any = _json.normalize_json

Task: Any = _base.Task
TaskContext: Any = _base.TaskContext
TaskError: Any = _base.TaskError
TaskResult: Any = _base.TaskResult
TaskResultStatus: Any = _base.TaskResultStatus
#: Django and the package name it differently.
InvalidTask: Any = getattr(_exceptions, "InvalidTask", None) or _exceptions.InvalidTaskError
TaskResultDoesNotExist: Any = _exceptions.TaskResultDoesNotExist

task_enqueued: Any = _signals.task_enqueued
task_started: Any = _signals.task_started
task_finished: Any = _signals.task_finished


def is_heard(signal: Any, sender: type) -> bool:
    """Whether a receiver other than the framework's own, which logs, gets a signal of this sender."""
    receivers = signal._live_receivers(sender)  # noqa: SLF001 - has_listeners() counts the framework's own
    # Django has those that are coroutine functions apart.
    found = [each for part in receivers for each in (part if isinstance(part, list) else [part])]
    return any(not str(getattr(each, "__module__", "")).startswith(_name) for each in found)
