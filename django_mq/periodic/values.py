"""What code and operators may say of a periodic message, and how it is stored."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.core.serializers.json import DjangoJSONEncoder

from django_mq.delivery.publisher import OutgoingMessage
from django_mq.delivery.publisher import check as check_message
from django_mq.delivery.validation import check_json
from django_mq.engine.decisions.periodic import problems_of
from django_mq.engine.options import WHAT_A_NAME_IS, is_name, is_storable
from django_mq.errors import ConfigurationError, InvalidMessage, WrongSchedule, shown
from django_mq.periodic.ticks import schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What is declared of a periodic message that says nothing of it.
USUAL: Final[Mapping[str, Any]] = {
    "cron": "",
    "every_seconds": None,
    "tz": "UTC",
    "kind": "message",
    "queue": "",
    "target": "",
    "body": None,
    "args": [],
    "kwargs": {},
    "options": {},
    "missed": "once",
    "most_missed": 100,
    "overlap": "queue",
    "jitter_seconds": 0,
    "start_at": None,
    "end_at": None,
    "alert_seconds": None,
}
#: The fields that code declares.
DECLARED: Final = tuple(USUAL)
#: The options that each kind takes.
OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "message": frozenset({"priority", "headers", "ttl", "group_key", "correlation_id"}),
    "celery": frozenset(
        {"priority", "headers", "expires", "exchange", "routing_key", "time_limit", "soft_time_limit"}
    ),
    "task": frozenset({"priority"}),
}
#: What the options of tasks may be. ``publish`` checks those of a message.
TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "priority": (int,),
    "headers": (dict,),
    "expires": (int, float, str, datetime, timedelta),
    "exchange": (str,),
    "routing_key": (str,),
    "time_limit": (int, float),
    "soft_time_limit": (int, float),
}
MOMENT: Final = timedelta(microseconds=1)
#: The most characters of a name.
NAME_LENGTH: Final = 200
#: The most characters of a type, or of the name of a task.
TARGET_LENGTH: Final = 255


def check(name: str, values: Mapping[str, Any]) -> None:
    """Raise WrongSchedule, or ConfigurationError, for values that cannot be."""
    about = f"The periodic message {shown(name)}"
    if not isinstance(name, str) or not name or not is_storable(name, NAME_LENGTH):
        raise ConfigurationError(
            f"{about} has a wrong name; give 1 to {NAME_LENGTH} characters, none of them null."
        )
    if problem := next(problems_of(values), None):
        raise ConfigurationError(f"{about} cannot be: {problem}.")
    found = schedule(
        cron=values["cron"],
        every_seconds=values["every_seconds"],
        tz=values["tz"],
        start_at=values["start_at"],
        end_at=values["end_at"],
    )
    start, end = values["start_at"], values["end_at"]
    if start is not None and end is not None and found.next(start - MOMENT) is None:
        raise WrongSchedule(f"{about} never comes between {start} and {end}; correct them, or the cron line.")
    _check_target(about, values)
    _check_contents(about, values)


def _check_target(about: str, values: Mapping[str, Any]) -> None:
    if values["kind"] not in tuple(OPTIONS):
        raise ConfigurationError(
            f"{about} has the kind {shown(values['kind'])}; give one of {', '.join(OPTIONS)}."
        )
    if values["kind"] == "message" and not is_name(values["queue"]):
        raise ConfigurationError(f"{about} has the queue {shown(values['queue'])}; {WHAT_A_NAME_IS}.")
    for field, limit in (("queue", NAME_LENGTH), ("target", TARGET_LENGTH)):
        if not isinstance(values[field], str) or not is_storable(values[field], limit):
            found = f"{about} has the {field} {shown(values[field])}"
            raise ConfigurationError(f"{found}; give at most {limit} characters, none of them null.")
    if values["kind"] != "message" and not values["target"]:
        raise ConfigurationError(f"{about} names no task; give its name.")


def _check_contents(about: str, values: Mapping[str, Any]) -> None:
    if not isinstance(values["args"], list) or not isinstance(values["kwargs"], dict):
        raise ConfigurationError(f"{about} has wrong arguments; give a list of args, and a dictionary of kwargs.")
    for field in ("body", "args", "kwargs", "options"):
        _check_json(f"{about} has a wrong value of {field}", values[field])
    options, known = values["options"], OPTIONS[values["kind"]]
    if not isinstance(options, dict) or options.keys() - known:
        raise ConfigurationError(
            f"{about} has the options {shown(options)}; it may have {', '.join(sorted(known))}."
        )


def check_options(name: str, values: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for values that were checked, and that ``publish`` or the task refuses.

    It reads the settings: do not call it before the apps are ready.
    """
    about, options = f"The periodic message {shown(name)}", values["options"]
    if values["kind"] == "message":
        message = OutgoingMessage(queue=values["queue"], body=values["body"], type=values["target"], **options)
        try:
            check_message(message)
        except InvalidMessage as error:
            raise ConfigurationError(f"{about} cannot be published: {error}") from error
        return
    for option, value in options.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, TYPES[option])):
            kinds = " or ".join(each.__name__ for each in TYPES[option])
            raise ConfigurationError(f"{about} has the option {option} {shown(value)}; give a value of {kinds}.")


def _check_json(about: str, value: Any) -> None:
    """Raise ConfigurationError for a value that a JSON column cannot store."""
    try:
        check_json(json.dumps(value, cls=DjangoJSONEncoder, allow_nan=False), "it")
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{about}: {str(error).rstrip('.')}.") from error


def values_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of fields as JSON has them: times as texts."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in fields.items()}


def fields_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of fields, from those that JSON has."""
    return {
        name: datetime.fromisoformat(value) if name in {"start_at", "end_at"} and value is not None else value
        for name, value in values.items()
    }
