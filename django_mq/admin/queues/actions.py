"""The actions on queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mq.acts import recorder
from django_mq.acts.command_lines import line, option, reasons
from django_mq.admin.actions import Action
from django_mq.admin.forms import Confirmation, Deletion, Pause, Typed
from django_mq.admin.table import alias
from django_mq.delivery import queues
from django_mq.delivery.operator import recalls
from django_mq.diagnosis.language import exact
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_mq.acts.models import Act
    from django_mq.models import Queue

#: The most dead letters that a request sends back.
REDRIVEN = 10_000


def _pause(queue: Queue, answers: Mapping[str, Any]) -> str:
    minutes: float | None = answers["minutes"]
    seconds = None if minutes is None else minutes * 60
    queues.pause(queue.name, reason=answers["reason"], seconds=seconds, using=alias())
    return _("“%(queue)s” is paused: %(reason)s") % {"queue": queue.name, "reason": answers["reason"]}


def _resume(queue: Queue, _answers: Mapping[str, Any]) -> str:
    queues.resume(queue.name, using=alias())
    return _("“%(queue)s” delivers again.") % {"queue": queue.name}


def _free_groups(queue: Queue, _answers: Mapping[str, Any]) -> str:
    freed = queues.free_groups(queue.name, using=alias())
    sentence = ngettext("“%(queue)s”: %(count)s group is free.", "“%(queue)s”: %(count)s groups are free.", freed)
    return sentence % {"queue": queue.name, "count": exact(freed)}


def _purge(queue: Queue, _answers: Mapping[str, Any], act: Act) -> str:
    act.count = purged = recalls.purge(queue.name, using=alias())
    sentence = ngettext(
        "“%(queue)s” is purged: %(count)s message.", "“%(queue)s” is purged: %(count)s messages.", purged
    )
    return sentence % {"queue": queue.name, "count": exact(purged)}


def _redrive(queue: Queue, _answers: Mapping[str, Any], act: Act) -> str:
    done = recorder.redrive(act, queue.name, limit=REDRIVEN, using=alias())
    sentence = ngettext(
        "“%(queue)s”: %(count)s dead letter redriven.",
        "“%(queue)s”: %(count)s dead letters redriven.",
        done.total,
    ) % {"queue": queue.name, "count": exact(done.total)}
    if done.stayed:
        left = ngettext(
            "%(count)s stayed: its queue is gone or full or has it already.",
            "%(count)s stayed: their queues are gone or full or have them already.",
            done.stayed,
        )
        sentence = f"{sentence} {left % {'count': exact(done.stayed)}}"
    if done.total + done.stayed >= REDRIVEN:
        sentence = f"{sentence} {_('There may be more: redrive again.')}"
    return sentence


def _delete(queue: Queue, answers: Mapping[str, Any], act: Act) -> str:
    act.count = removed = shared_store(alias()).deletions.delete_queue(queue.name, force=answers["force"])
    sentence = ngettext(
        "“%(queue)s” is deleted, and %(count)s message with it.",
        "“%(queue)s” is deleted, and %(count)s messages with it.",
        removed,
    )
    return sentence % {"queue": queue.name, "count": exact(removed)}


def _command_to_pause(queue: Queue, answers: Mapping[str, Any]) -> str:
    minutes = answers.get("minutes")
    seconds = [] if minutes is None else [option("seconds", str(round(minutes * 60)))]
    return line("mq_pause", option("reason", answers.get("reason")), *seconds, names=[queue.name])


def _command_to_delete(queue: Queue, answers: Mapping[str, Any]) -> str:
    force = ["--force"] if answers.get("force") else []
    return line("mq_queue", "delete", *force, *reasons(answers), names=[queue.name])


PAUSE = Action(
    name="pause",
    permission="pause_queue",
    label=gettext_lazy("Pause"),
    run=_pause,
    question=Pause,
    command=_command_to_pause,
    warning=gettext_lazy("A paused queue delivers nothing; what workers already hold they may finish."),
)
RESUME = Action(
    name="resume",
    permission="pause_queue",
    label=gettext_lazy("Resume"),
    run=_resume,
    command=lambda queue, _answers: line("mq_resume", names=[queue.name]),
)
FREE_GROUPS = Action(
    name="free_groups",
    permission="free_groups_queue",
    label=gettext_lazy("Free groups"),
    run=_free_groups,
    command=lambda queue, _answers: line("mq_groups", "--free-all", names=[queue.name]),
    question=Confirmation,
    warning=gettext_lazy(
        "Each group finds a new owner with its next message. A worker finishes the messages of a group that it "
        "holds before another worker gets messages of this group."
    ),
)
PURGE = Action(
    name="purge",
    permission="purge_queue",
    label=gettext_lazy("Purge"),
    run=_purge,
    counts=True,
    command=lambda queue, answers: line("mq_purge", "--yes", *reasons(answers), names=[queue.name]),
    question=Typed,
    warning=gettext_lazy(
        "All ready, scheduled and dead messages are removed, and those that workers have prefetched and not "
        "begun. Only the history remembers them."
    ),
    harmful=True,
)
REDRIVE = Action(
    name="redrive",
    permission="redrive_message",
    label=gettext_lazy("Redrive dead letters"),
    run=_redrive,
    counts=True,
    command=lambda queue, answers: line(
        "mq_redrive", f"--limit={REDRIVEN}", *reasons(answers), names=[queue.name]
    ),
    question=Confirmation,
    warning=gettext_lazy(
        "Dead letters become ready in their old place; those of other queues return to where they came "
        "from. Their attempts start again."
    ),
)
#: In place of Django's action, which would delete the messages in a cascade.
DELETE = Action(
    name="delete_selected",
    permission="delete_queue",
    label=gettext_lazy("Delete"),
    run=_delete,
    counts=True,
    command=_command_to_delete,
    question=Deletion,
    warning=gettext_lazy("The queues and their bindings are deleted; publishing to them will be refused."),
    harmful=True,
)

ACTIONS = (PAUSE, RESUME, REDRIVE, FREE_GROUPS, PURGE, DELETE)
