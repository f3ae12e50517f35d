"""What an operator may tell a worker: each action with what it asks before, and the sentence it ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin.actions import Action, GoneError
from django_mq.admin.forms import Confirmation, GivenCredit
from django_mq.admin.table import alias
from django_mq.delivery.operator.commands import send_command
from django_mq.engine.worker_mode import WorkerMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_stubs_ext import StrOrPromise

    from django_mq.models import WorkerSession


def _telling(done: StrOrPromise, mode: WorkerMode | None) -> Callable[[WorkerSession, Mapping[str, Any]], str]:
    """Return what tells a session its mode, or without one the credit that was answered."""

    def tell(session: WorkerSession, answers: Mapping[str, Any]) -> str:
        words = {"worker": session.name, "credit": answers.get("credit") or _("its own")}
        credit = answers["credit"] or 0 if mode is None else None
        if not send_command(session.pk, mode=mode, credit=credit, using=alias()):
            raise GoneError(_("“%(worker)s” is gone.") % words)
        return str(done) % words

    return tell


QUIET = Action(
    name="quiet",
    permission="quiet_workersession",
    label=gettext_lazy("Be quiet"),
    run=_telling(gettext_lazy("“%(worker)s” is told to claim no more."), WorkerMode.QUIET),
    question=Confirmation,
    warning=gettext_lazy(
        "A quiet worker finishes what it holds and takes nothing new until it is told to work again."
    ),
)
WORK = Action(
    name="work",
    permission="quiet_workersession",
    label=gettext_lazy("Work again"),
    run=_telling(gettext_lazy("“%(worker)s” is told to work."), WorkerMode.WORK),
)
STOP = Action(
    name="stop",
    permission="stop_workersession",
    label=gettext_lazy("Stop"),
    run=_telling(gettext_lazy("“%(worker)s” is told to stop."), WorkerMode.STOP),
    question=Confirmation,
    warning=gettext_lazy("The process ends after its current work. A process manager may start another one."),
    harmful=True,
)
LIMIT = Action(
    name="limit",
    permission="limit_workersession",
    label=gettext_lazy("Change credit"),
    run=_telling(gettext_lazy("“%(worker)s” is told its credit: %(credit)s for each consumer."), None),
    question=GivenCredit,
)

ACTIONS = (QUIET, WORK, LIMIT, STOP)
