"""The list of workflows, and the page of one: its graph with the states of its steps."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.contrib import admin
from django.db.models import Q
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.actions import ActionAdmin, Preview
from django_mq.admin.filters import SAMPLE, Filter
from django_mq.admin.paginator import BoundedPaginator
from django_mq.admin.table import ReadOnly, alias
from django_mq.admin.workflows.actions import ACTIONS, CANCEL, DELETE, RETRY
from django_mq.admin.workflows.picture import picture_of
from django_mq.admin.workflows.steps import ShownSteps, most_urgent
from django_mq.diagnosis.language import LOCAL, exact
from django_mq.diagnosis.messages.terms import newest_by
from django_mq.engine.decisions.workflows import DONE, WorkflowState
from django_mq.workflows.models import StepRun, WorkflowRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.admin.actions import Action

ENDED: Final = {state.value for state in DONE}
RETRIED: Final = {WorkflowState.FAILED.value, WorkflowState.CANCELLED.value}
STOPPED: Final = {WorkflowState.RUNNING.value}


class WorkflowNameFilter(Filter):
    title, parameter_name = gettext_lazy("name"), "name"

    def found(self, model: type[Any]) -> Iterable[str]:
        rows: QuerySet[Any] = model.objects.using(alias()).order_by("-created_at")
        return rows.values_list("name", flat=True)[:SAMPLE]

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return newest_by(rows.filter(name=value), "created_at")


class RunStateFilter(Filter):
    title, parameter_name = gettext_lazy("status"), "state"
    offered = [(str(value), label) for value, label in WorkflowRun.Status.choices]


class NestedFilter(Filter):
    title, parameter_name = gettext_lazy("level"), "level"
    offered = [("top", gettext_lazy("not part of another workflow")), ("sub", gettext_lazy("sub-workflows"))]

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(parent__isnull=value != "sub")


class WorkflowRunAdmin(ReadOnly, ActionAdmin):
    actions = ACTIONS
    paginator = BoundedPaginator
    id_form = re.compile(r"[0-9a-fA-F-]{32,36}")
    late = ["graph"]
    list_display = ["what", "situation", "progress", "started", "took", "key"]
    list_filter = [RunStateFilter, WorkflowNameFilter, NestedFilter]
    search_fields = ["name"]
    search_help_text = gettext_lazy(
        "Search for the id of a workflow, or of the message of a step. Among the newest 100,000 workflows, also "
        "for a name or a unique key."
    )
    sortable_by = ()
    ordering = ["-created_at", "-id"]
    fieldsets = [
        (None, {"fields": ["what", "situation", "progress", "took", "label", "part_of"]}),
        (gettext_lazy("Times"), {"fields": [("created_at", "deadline_at", "ended_at")]}),
        (gettext_lazy("Version"), {"fields": [("id", "version")]}),
    ]
    change_form_template = "admin/django_mq/workflowrun/change_form.html"

    started = columns.ago_column("created_at", gettext_lazy("started"))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        found = super().get_fieldsets(request, obj)
        if obj is not None and obj.parent_id is not None:
            return found
        return [
            (heading, part | {"fields": [each for each in part["fields"] if "part_of" not in each]})
            for heading, part in found
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[WorkflowRun]:
        rows: QuerySet[WorkflowRun] = super().get_queryset(request)
        return rows.defer("graph", "input")

    def meant_by(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        with suppress(ValueError):
            id_ = UUID(term)
            runs = StepRun.objects.using(alias()).filter(message_id=id_).order_by().values("run")
            return queryset.filter(Q(pk=id_) | Q(pk__in=runs))
        return newest_by(queryset, "created_at").filter(Q(name__icontains=term) | Q(label__icontains=term))

    @admin.display(description=gettext_lazy("workflow"))
    def what(self, run: WorkflowRun) -> str:
        return columns.clip(run.name)

    @admin.display(description=gettext_lazy("unique key"), empty_value="-")
    def key(self, run: WorkflowRun) -> str | None:
        return columns.clip(run.label) if run.label else None

    @admin.display(description=gettext_lazy("status"))
    def situation(self, run: WorkflowRun) -> str:
        label = run.get_state_display()
        is_well = run.state not in RETRIED
        shown = label if is_well else format_html('<span class="mq-warn">{}</span>', label)
        return format_html("{}: {}", shown, columns.clip(run.reason)) if run.reason else str(shown)

    @admin.display(description=gettext_lazy("steps"))
    def progress(self, run: WorkflowRun) -> str:
        if run.step_count is None:
            return _("%(number)s have not ended") % {"number": exact(run.open_steps)}
        done = run.step_count - run.open_steps
        words = _("%(ended)s of %(total)s have ended") % {"ended": exact(done), "total": exact(run.step_count)}
        return format_html(
            '<progress max="{}" value="{}" aria-hidden="true"></progress> <span>{}</span>',
            max(run.step_count, 1),
            done,
            words,
        )

    @admin.display(description=gettext_lazy("took"))
    def took(self, run: WorkflowRun) -> str:
        seconds = ((run.ended_at or datetime.now(UTC)) - run.created_at).total_seconds()
        words = LOCAL.duration(max(seconds, 0.0))
        return words if run.ended_at else format_html('<span class="mq-ago">{}</span>', words)

    @admin.display(description=gettext_lazy("step of"), empty_value="-")
    def part_of(self, run: WorkflowRun) -> str | None:
        if run.parent_id is None:
            return None
        step = (
            StepRun.objects.using(alias())
            .select_related("run")
            .defer("run__graph", "result", "item")
            .get(pk=run.parent_id)
        )
        address = self.page_address(WorkflowRun, step.run_id)
        return format_html('<a href="{}">{}</a>: {}', address, step.run, step)

    def preview(self, action: Action, chosen: Sequence[WorkflowRun]) -> Preview:
        rows = [[str(run), str(run.get_state_display()), str(run.pk)] for run in chosen]
        return Preview([_("Workflow"), _("Status"), _("Id")], rows)

    def details(self, request: HttpRequest, row: WorkflowRun) -> dict[str, Any]:
        is_whole, has_ended = row.parent_id is None, row.state in ENDED
        fit = [RETRY] if row.state in RETRIED and is_whole else []
        fit += [CANCEL] if row.state in STOPPED else []
        fit += [DELETE] if has_ended and is_whole else []
        offered = [(action.name, str(action.label)) for action in fit if self.may_do(request, action)]
        shown = ShownSteps(self, row, may_look=self.may_look(request))
        steps = shown.steps()
        listed = most_urgent(steps)
        return self.buttons(offered) | {
            "graph": picture_of([step.drawable for step in steps]),
            "steps": listed,
            "steps_left": exact(len(steps) - len(listed)) if len(listed) < len(steps) else "",
            "items": shown.items() if any(step.share for step in steps) else [],
            "children": list(shown.children()),
        }

    def may_look(self, request: HttpRequest) -> bool:
        """Return whether the user may see messages, or what is known of finished ones."""
        return self.may(request, "view_message") or self.may(request, "view_history")
