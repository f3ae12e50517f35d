"""A part of the memory store, and the lock around its methods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.inprocess.memory.broker import SharedBroker
    from django_mq.inprocess.memory.dead_letters import DeadLetters

P = ParamSpec("P")
R = TypeVar("R")
AnyPart = TypeVar("AnyPart", bound="Part")


@dataclass(eq=False)
class Part:
    """The methods of the store for one subject. Its fields are the other parts that it calls."""

    broker: SharedBroker
    dead_letters: DeadLetters


def locked(method: Callable[Concatenate[AnyPart, P], R]) -> Callable[Concatenate[AnyPart, P], R]:
    """Hold the lock of the broker; at the end, send on what rings have made dead letters of, and tell ends."""

    @wraps(method)
    def call(part: AnyPart, /, *args: P.args, **named: P.kwargs) -> R:
        with part.broker.locked():
            answer = method(part, *args, **named)
            part.dead_letters.send_dropped()
            part.broker.tell_ended()
            return answer

    return call
