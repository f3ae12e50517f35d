"""Let durable handlers go on that sleep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Q

from django_mq.durable import sleeps
from django_mq.management.messages import MessageCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.engine.states import State
    from django_mq.stores.records import Moved


class Command(MessageCommand):
    help = (
        "Let durable handlers go on that sleep, by the ids of their messages or all that match. The sleep is "
        "over, as if its time had come. A wait for an event is not ended: mq_events emits the event."
    )
    action, verb = "wake", "woken"
    among = Q(park_key=sleeps.ASLEEP)
    left = ("left", "left alone: no durable handler of it sleeps")

    def fitting(self, options: dict[str, Any]) -> frozenset[State]:  # noqa: ARG002 - of others
        return sleeps.STATES

    def change(self, rows: Sequence[ActionTarget], alias: str, options: dict[str, Any]) -> list[Moved]:  # noqa: ARG002
        return sleeps.wake_rows(rows, using=alias)
