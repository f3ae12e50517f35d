"""Operations: their progress, and buttons to stop and continue them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import BooleanField, ExpressionWrapper
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.acts import recorder
from django_mq.acts.command_lines import line, option
from django_mq.admin import columns, report
from django_mq.admin.messages.actions import BY_NAME
from django_mq.admin.operations import runner
from django_mq.admin.table import ReadOnly, TableAdmin, alias
from django_mq.models import Operation
from django_mq.models.operation import stalled

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


class OperationAdmin(ReadOnly, TableAdmin):
    """The list of operations. To stop or continue an operation, a user needs the permission of its action."""

    list_display = ["label", "situation", "progress", "user_name", "started"]
    list_filter = ["status"]
    sortable_by = ()
    actions = ["stop", "go_on"]
    fieldsets = [
        (None, {"fields": ["label", "situation", "progress", "error"]}),
        (gettext_lazy("Request"), {"fields": ["filters", "answers"]}),
        (gettext_lazy("User and times"), {"fields": ["user_name", "created_at", "beat_at"]}),
    ]
    change_form_template = "admin/django_mq/operation/change_form.html"

    started = columns.ago_column("created_at", gettext_lazy("started"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Operation]:
        every: QuerySet[Operation] = super().get_queryset(request)
        return every.annotate(stalled=ExpressionWrapper(stalled(), BooleanField()))

    @admin.display(description=gettext_lazy("operation"))
    def label(self, operation: Operation) -> str:
        action = BY_NAME.get(operation.act)
        return f"{action.label if action else operation.act} #{operation.pk}"

    @admin.display(description=gettext_lazy("status"))
    def situation(self, operation: Any) -> str:
        if operation.stalled:
            return format_html('<span class="mq-warn">{}</span>', _("no progress: a worker will continue it"))
        bad = operation.status == Operation.Status.FAILED
        label = operation.get_status_display()
        return format_html('<span class="mq-bad">{}</span>', label) if bad else label

    @admin.display(description=gettext_lazy("progress"))
    def progress(self, operation: Operation) -> str:
        words = report.progress(operation)
        done = operation.status == Operation.Status.DONE
        top = max(operation.expected, operation.tried, 1)
        return format_html(
            '<progress max="{}" value="{}" aria-label="{}"></progress> <span data-mq-news>{}</span>',
            top,
            top if done else operation.tried,
            words,
            words,
        )

    @admin.action(description=gettext_lazy("Stop"))
    def stop(self, request: HttpRequest, queryset: QuerySet[Operation]) -> None:
        self._steer(request, queryset, "stop", runner.stop, _("It has stopped."))

    @admin.action(description=gettext_lazy("Continue"))
    def go_on(self, request: HttpRequest, queryset: QuerySet[Operation]) -> None:
        go_on = partial(runner.go_on, user_name=request.user.get_username())
        self._steer(request, queryset, "go_on", go_on, _("It continues where it stopped."))

    def _steer(
        self, request: HttpRequest, operations: QuerySet[Operation], name: str, action: Any, sentence: str
    ) -> None:
        for operation in operations:
            if not self._may_steer(request, operation):
                self.message_user(request, _("You may not do this action."), messages.ERROR)
            elif action(operation):
                operation.refresh_from_db(using=alias())
                words = f"{sentence} ({report.progress(operation)})"
                self.log_entry(request, operation, words)
                command = line("mq_operations", option("stop", operation.pk)) if name == "stop" else ""
                act = self.new_act(request, name, about=operation, sentence=words, command=command)
                recorder.write(act, using=alias())
                self.message_user(request, f"{self.label(operation)}: {words}", messages.SUCCESS)
            else:
                nothing = _("nothing to do.")
                self.message_user(request, f"{self.label(operation)}: {nothing}", messages.WARNING)

    def _may_steer(self, request: HttpRequest, operation: Operation) -> bool:
        action = BY_NAME.get(operation.act)
        return action is not None and self.may(request, action.permission)

    def details(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        running = row.status == Operation.Status.RUNNING
        actions = []
        if self._may_steer(request, row):
            if running:
                actions.append(("stop", _("Stop")))
            if row.stalled or row.status in {Operation.Status.STOPPED, Operation.Status.FAILED}:
                actions.append(("go_on", _("Continue")))
        return self.buttons(actions) | {"is_running": running}
