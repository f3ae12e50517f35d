"""What an operator may do to queues: each act with what it asks before, and the sentence it ends with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mq.admin import steering
from django_mq.admin.asking import Asking
from django_mq.admin.questions import Confirmation, Deletion, Pause, Typed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_mq.models import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAct(Asking):
    """One thing to do to a queue; ``run`` returns what was done, or raises MQError."""

    run: Callable[[Queue, Mapping[str, Any]], str]


def _pause(queue: Queue, answers: Mapping[str, Any]) -> str:
    minutes: float | None = answers["minutes"]
    seconds = None if minutes is None else minutes * 60
    steering.pause(queue.name, reason=answers["reason"], seconds=seconds)
    return _("“%(queue)s” is paused: %(reason)s") % {"queue": queue.name, "reason": answers["reason"]}


def _resume(queue: Queue, _answers: Mapping[str, Any]) -> str:
    steering.resume(queue.name)
    return _("“%(queue)s” delivers again.") % {"queue": queue.name}


def _purge(queue: Queue, _answers: Mapping[str, Any]) -> str:
    purged = steering.purge(queue.name)
    sentence = ngettext(
        "“%(queue)s” is purged: %(count)s message.", "“%(queue)s” is purged: %(count)s messages.", purged
    )
    return sentence % {"queue": queue.name, "count": purged}


def _redrive(queue: Queue, _answers: Mapping[str, Any]) -> str:
    back, stayed = steering.redrive(queue.name)
    sentence = ngettext(
        "“%(queue)s”: %(count)s dead letter sent back.", "“%(queue)s”: %(count)s dead letters sent back.", back
    ) % {"queue": queue.name, "count": back}
    if stayed:
        left = ngettext(
            "%(count)s stayed: its queue is gone or full or has it already.",
            "%(count)s stayed: their queues are gone or full or have them already.",
            stayed,
        )
        sentence = f"{sentence} {left % {'count': stayed}}"
    return sentence


def _delete(queue: Queue, answers: Mapping[str, Any]) -> str:
    removed = steering.delete_queue(queue.name, force=answers["force"])
    sentence = ngettext(
        "“%(queue)s” is deleted, and %(count)s message with it.",
        "“%(queue)s” is deleted, and %(count)s messages with it.",
        removed,
    )
    return sentence % {"queue": queue.name, "count": removed}


PAUSE = QueueAct(
    name="pause",
    label=gettext_lazy("Pause"),
    run=_pause,
    question=Pause,
    warning=gettext_lazy("A paused queue delivers nothing; what workers already hold they may finish."),
)
RESUME = QueueAct(name="resume", label=gettext_lazy("Resume"), run=_resume)
PURGE = QueueAct(
    name="purge",
    label=gettext_lazy("Purge"),
    run=_purge,
    question=Typed,
    warning=gettext_lazy(
        "All messages that no worker holds are removed: ready, scheduled and dead ones. "
        "Only the history remembers them."
    ),
    harmful=True,
)
REDRIVE = QueueAct(
    name="redrive",
    label=gettext_lazy("Send dead letters back"),
    run=_redrive,
    question=Confirmation,
    warning=gettext_lazy(
        "Dead messages become ready in their old place; dead letters of other queues return to where they came "
        "from. Their attempts start again."
    ),
)
DELETE = QueueAct(
    name="delete_selected",
    label=gettext_lazy("Delete"),
    run=_delete,
    question=Deletion,
    warning=gettext_lazy("The queues and their bindings are deleted; publishing to them will be refused."),
    harmful=True,
)
