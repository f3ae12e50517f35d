"""``@periodic``: what code declares.

Nothing here needs the tables, so that apps may import it before they are ready.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.module_loading import autodiscover_modules

from django_mq.delivery.consumer.handler_function import HandlerFunction
from django_mq.delivery.consumer.handlers import discover
from django_mq.errors import ConfigurationError, WrongSchedule, shown
from django_mq.periodic.values import check, check_options, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Target = TypeVar("Target")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What code says of one periodic message."""

    name: str
    #: Values of the fields, as JSON has them.
    values: Mapping[str, Any]


#: What was decorated, with the name and the values that were given.
_declared: list[tuple[Any, str, dict[str, Any]]] = []


def periodic(
    cron: str = "",
    *,
    every: timedelta | float | None = None,
    tz: str = "UTC",
    name: str = "",
    body: Any = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    missed: str = "once",
    most_missed: int = 100,
    overlap: str = "queue",
    jitter_seconds: float = 0,
    start_at: datetime | None = None,
    end_at: datetime | None = None,
    alert_seconds: float | None = None,
) -> Callable[[Target], Target]:
    """Publish a message for this handler, or this task, at each tick; write it above ``@consumer`` or ``@task``.

    ``cron`` is a line of five fields, in the time zone ``tz``, or of six that begin with the second. ``every`` is
    an interval, as a timedelta or in seconds, 1 or more. A handler gets the ``body``, a task ``args`` and
    ``kwargs``.

    ``options`` are further arguments of ``publish``, ``apply_async`` or ``using``, as the priority.

    ``missed`` says what to do with ticks that no worker has published: "skip", "once", or "all", at most
    ``most_missed`` of them. ``overlap`` says what to do with a tick while the run before lasts: "skip", "queue" or
    "replace". A tick is late by up to ``jitter_seconds``. ``start_at`` and ``end_at`` are aware. After
    ``alert_seconds`` without success, the doctor and the admin name a problem.

    The ``name`` is that of the function, unless it is given. Raises ConfigurationError and WrongSchedule.
    """
    values = {
        "cron": " ".join(cron.split()) if isinstance(cron, str) else cron,
        "every_seconds": every.total_seconds() if isinstance(every, timedelta) else every,
        "tz": tz,
        "body": body,
        "args": list(args) if isinstance(args, tuple) else args,
        "kwargs": {} if kwargs is None else kwargs,
        "options": {} if options is None else options,
        "missed": missed,
        "most_missed": most_missed,
        "overlap": overlap,
        "jitter_seconds": jitter_seconds,
        "start_at": start_at,
        "end_at": end_at,
        "alert_seconds": alert_seconds,
    }
    # What is decorated may not be finished: a shared task of Celery makes an app if it is looked at too early.
    unknown: dict[str, Any] = {"kind": "message", "queue": "queue", "target": ""}
    if isinstance(options, dict):
        unknown["options"] = {}
    check(name or "of this function", values | unknown)

    def register(target: Target) -> Target:
        _declared.append((target, name, values))
        return target

    return register


class DeclaredMessages(NamedTuple):
    """What code declares, and by name why some of it cannot be."""

    right: list[Declaration]
    wrong: dict[str, str]


def declarations() -> DeclaredMessages:
    """Return what the code declares, after all of it is imported."""
    discover()
    autodiscover_modules("tasks", "periodic")
    right: dict[str, Declaration] = {}
    wrong: dict[str, str] = {}
    for target, given_name, given in _declared:
        name = given_name or shown(target)
        try:
            name = given_name or name_of(target)
            declaration = declaration_of(name, given | target_of(target))
        except (ConfigurationError, WrongSchedule) as error:
            wrong[name] = str(error)
            continue
        if right.setdefault(name, declaration) != declaration:
            wrong[name] = f"Two periodic messages have the name {name!r}; give one of them another name=."
    return DeclaredMessages([each for each in right.values() if each.name not in wrong], wrong)


def target_of(target: Any) -> dict[str, str]:
    """Return the fields for what was decorated. Raises ConfigurationError."""
    if isinstance(target, HandlerFunction):
        handler = target.handler
        return {"kind": "message", "queue": handler.queue, "target": handler.type}
    if hasattr(target, "apply_async") and hasattr(target, "name"):
        return {"kind": "celery", "queue": "", "target": target.name}
    if hasattr(target, "enqueue") and hasattr(target, "module_path"):
        return {"kind": "task", "queue": "", "target": target.module_path}
    raise ConfigurationError(
        f"@periodic decorates {shown(target)}, which is no handler and no task; write it above @consumer or @task."
    )


def name_of(target: Any) -> str:
    """Return the name of a periodic message that is given none."""
    name: str = target.handler.name if isinstance(target, HandlerFunction) else target_of(target)["target"]
    return name


def declaration_of(name: str, values: Mapping[str, Any]) -> Declaration:
    """Return a declaration. Raises ConfigurationError and WrongSchedule for values that cannot be."""
    check(name, values)
    check_options(name, values)
    # What ``publish`` takes as a timedelta, it takes as seconds, too.
    options = {
        key: each.total_seconds() if isinstance(each, timedelta) else each
        for key, each in values["options"].items()
    }
    return Declaration(
        name, json.loads(json.dumps(values_of({**values, "options": options}), cls=DjangoJSONEncoder))
    )
