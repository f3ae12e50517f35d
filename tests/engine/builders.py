"""Short ways to say what a test of the engine is given."""

from __future__ import annotations

from typing import Any

from django_mq.engine.message import Message


def message(name: str = "m", **properties: Any) -> Message:
    return Message(id=name, **properties)
