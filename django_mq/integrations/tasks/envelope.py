"""A task as the body of a message, and back.

Any program that can write into a queue names the task that runs. So a name must be that of a task: an object that
the ``@task`` decorator made, in a module of this project or of an installed app.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings

from django_mq.errors import UnknownTask, shown
from django_mq.integrations.tasks.compat import Task, normalize_json
from django_mq.integrations.tasks.options import CARRIED, LIMITS, carried, rules_of
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_mq.delivery.consumer.handlers import Handler
    from django_mq.integrations.tasks.options import TaskRules

#: Our priority of Django's 0, and how many of Django's are one of ours. Django has -100 to 100, we have 0 to 9.
USUAL = 4
STEPS_DOWN, STEPS_UP = 25, 20


def priority_of(priority: int) -> int:
    """Return our priority for one of Django's: 0 is the usual 4, 1 to 20 is 5, -1 to -25 is 3, and so on."""
    if priority >= 0:
        return USUAL - (-priority // STEPS_UP)
    return USUAL + priority // STEPS_DOWN


def pack(task: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the envelope. Raises TypeError for arguments that JSON cannot express."""
    options = carried(task)
    return {
        "task": task.module_path,
        "args": normalize_json(list(args)),
        "kwargs": normalize_json(dict(kwargs)),
        "priority": task.priority,
        "backend": task.backend,
        "run_after": task.run_after and task.run_after.isoformat(),
        "enqueued_at": clock.now().isoformat(),
    } | ({"options": options} if options else {})


def bound(task: Any, envelope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a task by name, with its defaults, as JSON has them."""
    context = (None,) if task.takes_context else ()
    found = inspect.signature(task.func).bind(*context, *envelope["args"], **envelope["kwargs"])
    found.apply_defaults()
    named = list(found.arguments.items())[len(context) :]
    values: dict[str, Any] = normalize_json(dict(named))
    return values


def unpack(envelope: Any, *, queue: str) -> Any:
    """Return the task that an envelope names, as it was enqueued. Raises UnknownTask and ConfigurationError."""
    if not is_envelope(envelope):
        raise UnknownTask("The message is no task: its body is not an envelope.")
    task = find(envelope["task"])
    changes = {"priority": envelope["priority"], "queue_name": queue, "backend": envelope["backend"]}
    changes = {name: value for name, value in changes.items() if value != getattr(task, name)}
    changes |= options_in(envelope)
    if (run_after := time_of(envelope, "run_after")) is not None:
        changes["run_after"] = run_after
    return task.using(**changes) if changes else task


def is_envelope(body: Any) -> bool:
    """Whether a body names a task and its arguments."""
    return (
        isinstance(body, dict)
        and isinstance(body.get("task"), str)
        and isinstance(body.get("args"), list)
        and isinstance(body.get("kwargs"), dict)
        and isinstance(body.get("priority"), int)
        and isinstance(body.get("backend"), str)
    )


def options_in(envelope: dict[str, Any]) -> dict[str, Any]:
    """Return the options of ours that the envelope carries. Raises UnknownTask."""
    given = envelope.get("options", {})
    if not isinstance(given, dict) or given.keys() - set(CARRIED):
        raise UnknownTask(f"The envelope has unknown options: {shown(given)}.")
    return given


def own_options(handler: Handler, body: Callable[[], Any]) -> Handler:
    """Return the handler with the rules of the task that a message names."""
    try:
        envelope = body()
        rules = rules_of(find(envelope["task"]), options_in(envelope))
    except Exception:  # noqa: BLE001 - the attempt fails for this reason
        return replace(handler, for_message=None)
    return _with_rules(handler, rules)


@lru_cache(maxsize=1000)
def _with_rules(handler: Handler, rules: TaskRules) -> Handler:
    own = {name: value for name in LIMITS if (value := getattr(rules, name)) is not None}
    return replace(handler, **own, retries=rules.retries, for_message=None)


def time_of(envelope: dict[str, Any], name: str) -> datetime | None:
    """Return a time of the envelope, or None."""
    text = envelope.get(name)
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def find(path: str) -> Any:
    """Return the task of this name. Raises UnknownTask."""
    module, _, name = path.rpartition(".")
    if module not in sys.modules and not _is_ours(module):
        raise UnknownTask(f"{path!r} is in no installed app, and its module is not imported.")
    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise UnknownTask(f"{path!r} cannot be imported: {error}.") from error
    if not isinstance(found, Task):
        raise UnknownTask(f"{path!r} is no task; decorate it with @task.")
    return found


def _is_ours(module: str) -> bool:
    if not all(part.isidentifier() for part in module.split(".")):
        return False
    project = str(getattr(settings, "SETTINGS_MODULE", "")).partition(".")[0]
    return apps.get_containing_app_config(module) is not None or module.partition(".")[0] == project
