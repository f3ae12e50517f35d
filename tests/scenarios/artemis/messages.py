"""From the fields of a step to a message, and to what selects messages."""

from typing import TYPE_CHECKING

from django_mq.engine.message import DEFAULT_PRIORITY, Message
from django_mq.engine.selector import Selector
from tests.scenarios.artemis.queues import GROUP, GROUP_SEQUENCE, LAST_VALUE
from tests.scenarios.errors import MalformedScenarioError
from tests.scenarios.fields import Fields

if TYPE_CHECKING:
    from tests.scenarios.artemis.stage import Stage


def read_message(stage: "Stage", step: Fields, queue: str) -> Message:
    """The message that a step publishes."""
    name = step.need("id", str)
    if not step.want("durable", bool, True):
        stage.volatile.add(name)
    return Message(
        id=name,
        queue=queue,
        headers=_headers(step),
        priority=_priority(step),
        size=step.want("size", int, 1),
        duplicate_id=step.want("dedup_id", str, None),
        published_at=stage.now,
        deliver_at=_time(step, "deliver_at"),
        expires_at=_end(stage, step),
    )


def _headers(step: Fields) -> dict[str, object]:
    special = {GROUP: "group", GROUP_SEQUENCE: "group_seq", LAST_VALUE: "last_value"}
    values = {header: step.want(name, object, None) for header, name in special.items()}
    headers: dict[str, object] = dict(step.want("headers", dict, {}))
    return headers | {header: value for header, value in values.items() if value is not None}


def _priority(step: Fields) -> int:
    priority = step.want("priority", int, DEFAULT_PRIORITY)
    if not 0 <= priority <= 9:
        raise MalformedScenarioError(f"{step.where}: a priority lies in 0..9, not {priority}")
    return priority


def _time(step: Fields, name: str) -> float | None:
    """An instant; nothing, as 0 and all that is negative."""
    time = step.want(name, float, 0.0)
    return time if time > 0 else None


def _end(stage: "Stage", step: Fields) -> float | None:
    expires_at, ttl = _time(step, "expires_at"), _time(step, "ttl")
    return expires_at if ttl is None else stage.now + ttl


def read_selector(step: Fields) -> Selector | None:
    """The selector of a step: a header that equals a value, or any of several; None without one."""
    values = step.want("selector", dict, None)
    if values is None:
        return None
    fields = Fields(values, f"{step.where}: the selector")
    header = fields.need("header", str).replace('"', '""')
    wanted = fields.want("in", list, []) if fields.has("in") else [fields.want("equals", object, None)]
    if not fields.has("in") and not fields.has("equals"):
        raise MalformedScenarioError(f"{fields.where} has neither 'equals' nor 'in'")
    fields.finish()
    return Selector(" OR ".join(_condition(header, value, fields.where) for value in wanted) or "1 = 0")


def _condition(header: str, value: object, where: str) -> str:
    if value is None:
        return f'"{header}" IS NULL'
    if isinstance(value, bool):
        return f'"{header}" = {str(value).upper()}'
    if isinstance(value, int | float):
        return f'"{header}" = {value!r}'
    if isinstance(value, str):
        return f"\"{header}\" = '{value.replace(chr(39), chr(39) * 2)}'"
    raise MalformedScenarioError(f"{where}: a header equals a scalar, not {value!r}")
