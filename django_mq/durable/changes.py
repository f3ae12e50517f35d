"""Change the records of messages that are not handled to the end. ``django_mq.api`` has the promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.durable.models import DurableStep
from django_mq.engine.decisions.durable import NAME_LENGTH, StepKind
from django_mq.engine.options import is_storable
from django_mq.errors import StepMisused, shown

if TYPE_CHECKING:
    from uuid import UUID


def rename_step(queue: str, old: str, new: str, *, alias: str) -> int:
    """Give a step another name; return how many records changed. Raises StepMisused."""
    if not isinstance(new, str) or not new or not is_storable(new, NAME_LENGTH):
        raise StepMisused(f"The name of a step is {shown(new)}; give a text of 1 to {NAME_LENGTH} characters.")
    rows = DurableStep.objects.using(alias).filter(queue_name=queue, kind=StepKind.STEP.value, name=old)
    return rows.update(name=new)


def forget_steps(queue: str, message_id: UUID | str, *, place: int, alias: str) -> int:
    """Forget what a message has done from a place on; return how many records were removed."""
    rows = DurableStep.objects.using(alias).filter(queue_name=queue, message_id=message_id)
    return rows.filter(place__gte=place - 1).delete()[0]
