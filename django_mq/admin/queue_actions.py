"""The actions of the queue pages, each behind its own permission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.utils.translation import gettext as _

from django_mq.admin import depth, queue_acts
from django_mq.admin.confirmation import Question, is_confirmed
from django_mq.admin.table import TableAdmin
from django_mq.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django import forms
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.queue_acts import QueueAct
    from django_mq.models import Queue


class QueueActions(TableAdmin):
    """Pause, resume, send dead letters back, purge, delete.

    One queue after the other; one that refuses does not stop the others.
    """

    # The last one takes the place of the admin's own, which would cascade over the messages.
    actions = ["pause", "resume", "redrive", "purge", "delete_selected"]

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "pause_queue")

    def has_purge_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "purge_queue")

    @admin.action(description=queue_acts.PAUSE.label, permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        return self._carry_out(queue_acts.PAUSE, request, list(queryset))

    @admin.action(description=queue_acts.RESUME.label, permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        return self._carry_out(queue_acts.RESUME, request, list(queryset))

    def has_redrive_permission(self, request: HttpRequest) -> bool:
        return self.may(request, "retry_message")

    @admin.action(description=queue_acts.REDRIVE.label, permissions=["redrive"])
    def redrive(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        return self._carry_out(queue_acts.REDRIVE, request, list(queryset))

    @admin.action(description=queue_acts.PURGE.label, permissions=["purge"])
    def purge(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        return self._carry_out(queue_acts.PURGE, request, list(queryset))

    @admin.action(description=queue_acts.DELETE.label, permissions=["delete"])
    def delete_selected(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        return self._carry_out(queue_acts.DELETE, request, list(queryset))

    def _carry_out(self, act: QueueAct, request: HttpRequest, queues: Sequence[Queue]) -> HttpResponse | None:
        if act.question is None:
            self._do(act, {}, request, queues)
            return None
        form = act.question(request.POST if is_confirmed(request) else None)
        if "force" in form.fields and not self.has_purge_permission(request):
            # Deleting messages takes the permission to purge them, whatever the request says.
            form.fields["force"].disabled = True
        if not form.is_valid():
            return self._question(act, queues, form).page(self, request)
        self._do(act, form.cleaned_data, request, queues)
        return None

    @staticmethod
    def _question(act: QueueAct, queues: Sequence[Queue], form: forms.Form) -> Question:
        counts = depth.measure(queues)
        return Question(
            action=act.name,
            title=str(act.label),
            warning=str(act.warning),
            harmful=act.harmful,
            columns=[_("Queue"), _("Ready"), _("Scheduled"), _("Dead"), _("Held by workers")],
            rows=[
                [name, *map(depth.shown, (found.ready, found.scheduled, found.dead, found.claimed))]
                for name, found in counts.items()
            ],
            form=form,
        )

    def _do(
        self, act: QueueAct, answers: Mapping[str, Any], request: HttpRequest, queues: Sequence[Queue]
    ) -> None:
        for queue in queues:
            try:
                self._check(act, request, queue)
                sentence = act.run(queue, answers)
            except MQError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                self._log(act, request, queue, sentence)
                self.message_user(request, sentence, messages.SUCCESS)

    def _check(self, act: QueueAct, request: HttpRequest, queue: Queue) -> None:
        """Raise MQError where a site's own page keeps this user from deleting this queue."""
        if act is queue_acts.DELETE and not self.has_delete_permission(request, queue):
            raise MQError(_("You may not delete “%(queue)s”.") % {"queue": queue.name})

    def _log(self, act: QueueAct, request: HttpRequest, queue: Queue, sentence: str) -> None:
        if act is queue_acts.DELETE:
            self.log_deletions(request, [queue])  # type: ignore[arg-type] # any iterable will do
        else:
            self.log_change(request, queue, sentence)
