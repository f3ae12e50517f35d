"""The actions of the pages of workers, each behind its own permission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.utils.translation import gettext as _

from django_mq.admin import worker_acts as acts
from django_mq.admin.confirmation import Question, is_confirmed
from django_mq.admin.table import TableAdmin
from django_mq.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django import forms
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.worker_acts import WorkerAct
    from django_mq.models import WorkerSession


class WorkerActions(TableAdmin):
    """Tell workers to be quiet, to work again, to stop; change their credit. One after the other."""

    actions = [act.name for act in acts.ACTS]

    def has_quiet_permission(self, request: HttpRequest) -> bool:
        return self.may(request, acts.QUIET.permission)

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return self.may(request, acts.STOP.permission)

    def has_limit_permission(self, request: HttpRequest) -> bool:
        return self.may(request, acts.LIMIT.permission)

    @admin.action(description=acts.QUIET.label, permissions=["quiet"])
    def quiet(self, request: HttpRequest, queryset: QuerySet[WorkerSession]) -> HttpResponse | None:
        return self._carry_out(acts.QUIET, request, list(queryset))

    @admin.action(description=acts.WORK.label, permissions=["quiet"])
    def work(self, request: HttpRequest, queryset: QuerySet[WorkerSession]) -> HttpResponse | None:
        return self._carry_out(acts.WORK, request, list(queryset))

    @admin.action(description=acts.LIMIT.label, permissions=["limit"])
    def limit(self, request: HttpRequest, queryset: QuerySet[WorkerSession]) -> HttpResponse | None:
        return self._carry_out(acts.LIMIT, request, list(queryset))

    @admin.action(description=acts.STOP.label, permissions=["stop"])
    def stop(self, request: HttpRequest, queryset: QuerySet[WorkerSession]) -> HttpResponse | None:
        return self._carry_out(acts.STOP, request, list(queryset))

    def _carry_out(
        self, act: WorkerAct, request: HttpRequest, sessions: Sequence[WorkerSession]
    ) -> HttpResponse | None:
        if act.question is None:
            self._tell_all(act, {}, request, sessions)
            return None
        form = act.question(request.POST if is_confirmed(request) else None)
        if not form.is_valid():
            return self._question(act, sessions, form).page(self, request)
        self._tell_all(act, form.cleaned_data, request, sessions)
        return None

    @staticmethod
    def _question(act: WorkerAct, sessions: Sequence[WorkerSession], form: forms.Form) -> Question:
        return Question(
            action=act.name,
            title=str(act.label),
            warning=str(act.warning),
            harmful=act.harmful,
            columns=[_("Worker"), _("Queues"), _("Held")],
            rows=[[one.name, ", ".join(map(str, one.queues)), str(one.held)] for one in sessions],
            form=form,
        )

    def _tell_all(
        self, act: WorkerAct, answers: Mapping[str, Any], request: HttpRequest, sessions: Sequence[WorkerSession]
    ) -> None:
        for session in sessions:
            words = {"worker": session.name, "credit": answers.get("credit") or _("its own")}
            try:
                found = act.run(session.pk, answers)
            except MQError as error:
                self.message_user(request, str(error), messages.ERROR)
                continue
            if found:
                self.log_change(request, session, str(act.done) % words)
                self.message_user(request, str(act.done) % words, messages.SUCCESS)
            else:
                self.message_user(request, _("“%(worker)s” is gone.") % words, messages.WARNING)
