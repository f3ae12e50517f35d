"""The actions on messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_mq.acts.command_lines import option
from django_mq.admin.actions import Action
from django_mq.admin.forms import Acknowledgement, Confirmation, Priority, TargetForm, Time
from django_mq.delivery.operator import actions
from django_mq.durable import sleeps
from django_mq.engine.states import CLAIMED
from django_mq.models.message import dead_letters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django_stubs_ext import StrOrPromise

    from django_mq.acts.command_lines import NamedMessages
    from django_mq.delivery.operator.actions import ActionTarget
    from django_mq.engine.states import State
    from django_mq.models import Message

#: The filter for messages that workers hold.
HELD = str(CLAIMED.value)


def _time(answers: Mapping[str, Any]) -> str | None:
    """Return the time in the answers, as a command takes it."""
    deliver_at = answers.get("deliver_at")
    return deliver_at.isoformat() if isinstance(deliver_at, datetime) else deliver_at


def _command_to_stop(chosen: NamedMessages, answers: Mapping[str, Any]) -> str:
    if chosen.filters.get("state", HELD) != HELD:
        return ""  # a stop leaves these alone, and the command would cancel them
    held = chosen._replace(filters={**chosen.filters, "state": HELD})
    return held.line("mq_cancel", answers, "--running", "--yes")


@dataclass(frozen=True, kw_only=True)
class MessageAction(Action):
    """An action whose ``run`` changes messages and returns those that it has changed. Raises MQError.

    Its ``command`` gets a ``NamedMessages`` instead of a row.
    """

    #: May contain answers, as ``%(target)s``.
    done: StrOrPromise
    #: Whether the action is for dead letters alone, of the messages in its states.
    of_dead_letters: bool = False
    #: Whether to take back, before, what workers have not begun.
    recalls: bool = False
    #: Whether the action is for messages whose durable handler sleeps alone, or for others; None: for both.
    of_sleepers: bool | None = None

    def held_in(self, rows: Sequence[ActionTarget]) -> set[str]:
        """Return the queues in which the action takes back what workers have not begun of these messages."""
        return {row.queue for row in rows if self.recalls and row.state == CLAIMED}

    @property
    def states(self) -> frozenset[State]:
        return sleeps.STATES if self.of_sleepers else actions.STATES[self.name]

    @property
    def among(self) -> Q:
        """The condition of the messages that "select all" stands for."""
        if self.of_sleepers:
            return Q(park_key=sleeps.ASLEEP)
        return dead_letters() if self.of_dead_letters else Q()

    def fits(self, message: Message) -> bool:
        """Return whether to offer the action on the page of a message."""
        if self.of_sleepers is not None and self.of_sleepers is not (message.park_key == sleeps.ASLEEP):
            return False
        return message.state in self.states and (message.is_dead_letter or not self.of_dead_letters)


RELEASE = MessageAction(
    name="release",
    permission="release_message",
    label=_("Release from worker"),
    done=_("Released"),
    run=lambda rows, _answers, using: actions.release(rows, using=using),
    question=Confirmation,
    warning=_(
        "A worker that handles such a message does not notice. The message may be handled twice, and what that "
        "worker reports is ignored. Any worker may take it again at once, also the one that held it. To prevent "
        "that, tell that worker before to take no new work, or pause the queue."
    ),
    harmful=True,
    command=lambda chosen, answers: chosen.line("mq_release", answers, "--yes"),
)
MOVE = MessageAction(
    name="move",
    permission="move_message",
    label=_("Move to another queue"),
    done=_("Moved to %(target)s"),
    run=lambda rows, answers, using: actions.move(rows, answers["target"], using=using),
    question=TargetForm,
    recalls=True,
    command=lambda chosen, answers: chosen.line("mq_move", answers, option("to", answers.get("target"))),
)
CANCEL = MessageAction(
    name="cancel",
    permission="cancel_message",
    label=_("Cancel and remove"),
    done=_("Cancelled"),
    run=lambda rows, _answers, using: actions.cancel(rows, using=using),
    question=Confirmation,
    warning=_("Cancelled messages are gone for good; only the history remembers them."),
    harmful=True,
    recalls=True,
    command=lambda chosen, answers: chosen.line("mq_cancel", answers, "--yes"),
)
STOP = MessageAction(
    name="stop",
    permission="stop_message",
    label=_("Stop and remove"),
    done=_("Asked the workers to stop"),
    run=lambda rows, _answers, using: actions.stop(rows, using=using),
    question=Confirmation,
    warning=_(
        "A handler is asked to end, a Celery task is terminated, and the message does not come back. What the "
        "handler has done stays. A handler that does not end within some seconds is given up."
    ),
    harmful=True,
    command=_command_to_stop,
)
DELIVER_NOW = MessageAction(
    name="deliver_now",
    permission="deliver_message_now",
    label=_("Deliver now"),
    done=_("Made ready now"),
    run=lambda rows, _answers, using: actions.deliver_now(rows, using=using),
    # A durable handler that sleeps would be parked again.
    of_sleepers=False,
    command=lambda chosen, answers: chosen.line("mq_reschedule", answers, "--now"),
)
WAKE = MessageAction(
    name="wake",
    permission="wake_durablestep",
    label=_("Wake now"),
    done=_("Woken"),
    run=lambda rows, _answers, using: sleeps.wake_rows(rows, using=using),
    question=Confirmation,
    warning=_(
        "The sleep of the durable handler ends now, and the handler goes on behind it. Other messages are left "
        "alone, also those that wait for an event: emit the event."
    ),
    of_sleepers=True,
    command=lambda chosen, answers: chosen.line("mq_wake", answers),
)
RESCHEDULE = MessageAction(
    name="reschedule",
    permission="reschedule_message",
    label=_("Reschedule"),
    done=_("Rescheduled to %(deliver_at)s"),
    run=lambda rows, answers, using: actions.reschedule(rows, answers["deliver_at"], using=using),
    question=Time,
    warning=_("Values of a last-value queue keep their times."),
    command=lambda chosen, answers: chosen.line("mq_reschedule", answers, option("at", _time(answers))),
)
PRIORITISE = MessageAction(
    name="prioritise",
    permission="prioritise_message",
    label=_("Change priority"),
    done=_("Given priority %(priority)s"),
    run=lambda rows, answers, using: actions.prioritise(rows, answers["priority"], using=using),
    question=Priority,
    command=lambda chosen, answers: chosen.line("mq_prioritise", answers, option("to", answers.get("priority"))),
)
REDRIVE = MessageAction(
    name="redrive",
    permission="redrive_message",
    label=_("Redrive"),
    done=_("Redriven"),
    run=lambda rows, _answers, using: actions.redrive(rows, using=using),
    of_dead_letters=True,
    command=lambda chosen, answers: chosen.line("mq_redrive", answers),
)

ACKNOWLEDGE = MessageAction(
    name="acknowledge",
    permission="add_acknowledgedletter",
    label=_("Acknowledge"),
    done=_("Acknowledged"),
    run=lambda rows, answers, using: actions.acknowledge(rows, answers["reason"], using=using),
    question=Acknowledgement,
    warning=_("An acknowledged dead letter stays, and is no alert any more, unless it dies again."),
    of_dead_letters=True,
    command=lambda chosen, answers: chosen.line("mq_acknowledge", {}, option("why", answers.get("reason"))),
)

ACTIONS = (REDRIVE, ACKNOWLEDGE, DELIVER_NOW, WAKE, RESCHEDULE, PRIORITISE, MOVE, RELEASE, STOP, CANCEL)
#: By name, as operations in the background store them.
BY_NAME = {action.name: action for action in ACTIONS}
