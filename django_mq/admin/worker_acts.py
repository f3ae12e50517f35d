"""What an operator may tell a worker: each act with what it asks before, and the sentence it ends with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

from django_mq.admin import steering
from django_mq.admin.asking import Asking
from django_mq.admin.questions import Confirmation, GivenCredit
from django_mq.engine.conduct import Conduct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAct(Asking):
    """One thing to tell a session; ``run`` returns whether it is still there. ``done`` may name the answer."""

    permission: str
    done: StrOrPromise
    run: Callable[[int, Mapping[str, Any]], bool]


QUIET = WorkerAct(
    name="quiet",
    permission="quiet_workersession",
    label=_("Be quiet"),
    done=_("“%(worker)s” is told to claim no more."),
    run=lambda session, _answers: steering.instruct(session, conduct=Conduct.QUIET),
    question=Confirmation,
    warning=_("A quiet worker finishes what it holds and takes nothing new until it is told to work again."),
)
WORK = WorkerAct(
    name="work",
    permission="quiet_workersession",
    label=_("Work again"),
    done=_("“%(worker)s” is told to work."),
    run=lambda session, _answers: steering.instruct(session, conduct=Conduct.WORK),
)
STOP = WorkerAct(
    name="stop",
    permission="stop_workersession",
    label=_("Stop"),
    done=_("“%(worker)s” is told to stop."),
    run=lambda session, _answers: steering.instruct(session, conduct=Conduct.STOP),
    question=Confirmation,
    warning=_(
        "The process ends after what it is doing now. Whatever keeps your processes alive may start another one."
    ),
    harmful=True,
)
LIMIT = WorkerAct(
    name="limit",
    permission="limit_workersession",
    label=_("Change credit"),
    done=_("“%(worker)s” is told its credit: %(credit)s for each consumer."),
    run=lambda session, answers: steering.instruct(session, credit=answers["credit"] or 0),
    question=GivenCredit,
)

ACTS = (QUIET, WORK, LIMIT, STOP)
