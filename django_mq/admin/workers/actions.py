"""The actions on worker sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.acts.command_lines import UNKNOWN, line
from django_mq.admin.actions import Action, GoneError
from django_mq.admin.forms import Confirmation, GivenCredit
from django_mq.admin.table import alias
from django_mq.delivery.operator.commands import send_command
from django_mq.engine.decisions.worker_mode import WorkerMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_stubs_ext import StrOrPromise

    from django_mq.models import WorkerSession


def _sending(done: StrOrPromise, mode: WorkerMode | None) -> Callable[[WorkerSession, Mapping[str, Any]], str]:
    """Return a function that sends a mode to a session, or, without a mode, the credit in the answers."""

    def send(session: WorkerSession, answers: Mapping[str, Any]) -> str:
        words = {"worker": session.name, "credit": answers.get("credit") or _("its own")}
        credit = answers["credit"] or 0 if mode is None else None
        if not send_command(session.pk, mode=mode, credit=credit, using=alias()):
            raise GoneError(_("“%(worker)s” is gone.") % words)
        return str(done) % words

    return send


def _command(*options: str) -> Callable[[WorkerSession, Mapping[str, Any]], str]:
    return lambda session, _answers: line("mq_workers", *options, str(session.pk))


QUIET = Action(
    name="quiet",
    permission="quiet_workersession",
    label=gettext_lazy("Stop taking work"),
    run=_sending(gettext_lazy("“%(worker)s” is told to take no new work."), WorkerMode.QUIET),
    command=_command("--quiet"),
    question=Confirmation,
    warning=gettext_lazy(
        "The worker finishes what it holds and takes nothing new until it is told to take work again."
    ),
)
WORK = Action(
    name="work",
    permission="quiet_workersession",
    label=gettext_lazy("Take work again"),
    run=_sending(gettext_lazy("“%(worker)s” is told to take work again."), WorkerMode.WORK),
    command=_command("--work"),
)
STOP = Action(
    name="stop",
    permission="stop_workersession",
    label=gettext_lazy("Stop"),
    run=_sending(gettext_lazy("“%(worker)s” is told to stop."), WorkerMode.STOP),
    command=_command("--stop"),
    question=Confirmation,
    warning=gettext_lazy("The process ends after its current work. A process manager may start another one."),
    harmful=True,
)
LIMIT = Action(
    name="limit",
    permission="limit_workersession",
    label=gettext_lazy("Change max in flight"),
    run=_sending(gettext_lazy("“%(worker)s” is told its max in flight: %(credit)s for each consumer."), None),
    question=GivenCredit,
    command=lambda session, answers: line(
        "mq_workers", "--credit", str((answers.get("credit") or 0) if answers else UNKNOWN), str(session.pk)
    ),
)

ACTIONS = (QUIET, WORK, LIMIT, STOP)
