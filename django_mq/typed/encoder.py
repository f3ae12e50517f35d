"""Objects as JSON has them, so that the readers make the same objects again."""

from __future__ import annotations

import dataclasses
from enum import Enum
from pathlib import PurePath
from typing import Any

from django_mq.typed import models


def encoded(value: Any) -> Any:
    """Return an object as JSON has it, with parts that may be objects again; NotImplemented if it has none.

    Models of pydantic and msgspec are written as their libraries write them, a dataclass as an object of its
    fields, an Enum as its value, a path as a text, and a set as a list.
    """
    if (model := models.encoded(value, _part)) is not NotImplemented:
        return model
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, set | frozenset):
        return list(value)
    return NotImplemented


def _part(value: Any) -> Any:
    found = encoded(value)
    if found is NotImplemented:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return found
