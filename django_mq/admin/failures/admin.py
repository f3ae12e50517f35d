"""The list of failure groups, and the page of one."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.actions import Action, ActionAdmin, Preview
from django_mq.admin.failures.actions import ACTIONS, plan_of
from django_mq.admin.filters import Filter
from django_mq.admin.messages.failures import shown
from django_mq.admin.overview.charts import HEIGHT, WIDTH, Line, draw, paths, scale_end
from django_mq.admin.paginator import BoundedChangeList
from django_mq.admin.table import ReadOnly, alias
from django_mq.diagnosis.language import exact
from django_mq.failures.deploys import last_deploy
from django_mq.failures.groups import STEP, step_of
from django_mq.failures.staged import count_dead_letters, filters_of
from django_mq.models import Attempt, FailureGroup, FailureTally, GroupedFailure, Message, StagedRedrive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from django_mq.acts.models import Act

#: How far back a curve goes.
SPAN = timedelta(days=1)
#: How many names a cell of the list has.
NAMES = 2
#: The fields with names, and how often each occurs.
WHERE = ("types_shown", "queues_shown", "workers_shown", "tenants_shown", "versions_shown")
#: The failed attempts on the page of a group.
EXAMPLES = 5


class NewFilter(Filter):
    """Whether the first failure of a group came after the last deploy."""

    title, parameter_name = gettext_lazy("first seen"), "new"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[Any, Any]]:  # noqa: ARG002
        deploy = last_deploy(using=alias())
        return [("yes", _("since the deploy of %(version)s") % {"version": deploy.version})] if deploy else []

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        deploy = last_deploy(using=alias()) if value == "yes" else None
        return rows.filter(first_at__gte=deploy.first_at) if deploy else rows


class GroupList(BoundedChangeList):
    """A page of groups. One statement reads their curves, another one the last deploy."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        curves = curves_of([group.pk for group in self.result_list])
        deploy = last_deploy(using=alias())
        for group in self.result_list:
            group.curve = curves[group.pk]
            group.deploy = deploy


class FailureGroupAdmin(ReadOnly, ActionAdmin):
    actions = ACTIONS
    list_display = ["what", "number", "curve_shown", "types_shown", "workers_shown", "first", "last"]
    list_filter = [NewFilter]
    search_fields = ["error", "text", "place"]
    sortable_by = ["number", "first", "last"]
    ordering = ["-last_at", "-id"]
    fieldsets = [
        (None, {"fields": ["error", "text", "place", "error_path", "news"]}),
        (None, {"fields": [("number", "first_at", "last_at")]}),
        (
            gettext_lazy("Where"),
            {"fields": WHERE},
        ),
    ]
    change_form_template = "admin/django_mq/failuregroup/change_form.html"

    first = columns.ago_column("first_at", gettext_lazy("first seen"))
    last = columns.ago_column("last_at", gettext_lazy("last seen"))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # noqa: ARG002
        return GroupList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        group = super().get_object(request, object_id, from_field)
        if group is not None:
            group.deploy, group.is_whole = last_deploy(using=alias()), True
            # So that an empty field is hidden.
            group.news, group.tenants_shown, group.versions_shown = (
                self.news(group),
                group.tenants or "",
                group.versions or "",
            )
        return group

    @admin.display(description=gettext_lazy("failure"))
    def what(self, group: Any) -> str:
        text = columns.clip(f"{group.error}: {group.text}" if group.text else group.error)
        mark = format_html(' <span class="mq-warn">{}</span>', news) if (news := self.news(group)) else ""
        return format_html('{}{}<div class="quiet">{}</div>', text, mark, columns.breakable(group.place))

    @admin.display(description=gettext_lazy("new"))
    def news(self, group: Any) -> str:
        """Return after which deploy the group was first seen; blank for an older one."""
        if group.deploy is None or group.first_at < group.deploy.first_at:
            return ""
        return _("new since %(version)s") % {"version": group.deploy.version}

    @admin.display(description=gettext_lazy("failures"), ordering="failures")
    def number(self, group: FailureGroup) -> str:
        return exact(group.failures)

    @admin.display(description=gettext_lazy("last 24 hours"))
    def curve_shown(self, group: Any) -> str:
        return sparkline(group.curve)

    @admin.display(description=gettext_lazy("types"))
    def types_shown(self, group: Any) -> str:
        return _named(group.types, group)

    @admin.display(description=gettext_lazy("queues"))
    def queues_shown(self, group: Any) -> str:
        return _named(group.queues, group)

    @admin.display(description=gettext_lazy("workers"))
    def workers_shown(self, group: Any) -> str:
        return _named(group.workers, group)

    @admin.display(description=gettext_lazy("tenants"))
    def tenants_shown(self, group: Any) -> str:
        return _named(group.tenants, group)

    @admin.display(description=gettext_lazy("versions"))
    def versions_shown(self, group: Any) -> str:
        return _named(group.versions, group)

    def preview(self, action: Action, chosen: Sequence[FailureGroup]) -> Preview:  # noqa: ARG002 - for others
        rows = [[str(group), group.place, exact(group.failures)] for group in chosen]
        return Preview([_("Failure"), _("Place"), _("Failures")], rows)

    def count_up_to(self, action: Action, chosen: Sequence[FailureGroup], limit: int) -> int:  # noqa: ARG002 - there is one
        return sum(count_dead_letters(group.pk, limit=limit, using=alias()) for group in chosen)

    def run_on(self, action: Action, answers: Mapping[str, Any], request: HttpRequest, row: Any, act: Act) -> str:
        sentence: str = action.run(self, request, row, answers, act)
        return sentence

    def details(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        fit = [(action.name, str(action.label)) for action in ACTIONS if self.may_do(request, action)]
        may = {"attempts": self.may(request, "view_attempt"), "messages": self.may(request, "view_message")}
        links = [
            (_("Dead letters of this group"), self.list_address(Message, **filters_of(row.pk)), may["messages"]),
            (_("All its failed attempts"), self.list_address(Attempt, failure=row.pk), may["attempts"]),
        ]
        return self.buttons(fit) | {
            "chart": chart_of(curves_of([row.pk])[row.pk]),
            "links": [(label, address) for label, address, is_allowed in links if is_allowed],
            "attempts": examples(row) if may["attempts"] else None,
            "redrives": self._redrives(row) if self.may(request, "view_stagedredrive") else [],
        }

    def _redrives(self, group: FailureGroup) -> list[tuple[StagedRedrive, str, str]]:
        """Return the newest redrives of a group, with their stages and addresses."""
        found = StagedRedrive.objects.using(alias()).filter(group=group)[:EXAMPLES]
        return [(redrive, plan_of(redrive), self.page_address(StagedRedrive, redrive.pk)) for redrive in found]


def _named(counted: Mapping[str, int], group: Any) -> str:
    """Return how often each name occurs, the most frequent first; in a list, only some names."""
    most = None if getattr(group, "is_whole", False) else NAMES
    names = [f"{name} ({exact(number)})" for name, number in list(counted.items())[:most]]
    more = ["…"] if most and len(counted) > most else []
    return columns.breakable(", ".join(names + more) or "-")


def curves_of(groups: Sequence[int]) -> defaultdict[int, list[float]]:
    """Return the failures of each step of the last day, the running one last, by group: one statement."""
    last = step_of(datetime.now(UTC))
    first, steps = last - SPAN + STEP, SPAN // STEP
    curves: defaultdict[int, list[float]] = defaultdict(lambda: [0.0] * steps)
    tallies = FailureTally.objects.using(alias()).filter(group__in=groups, begins_at__gte=first)
    for group, begins_at, failures in tallies.values_list("group_id", "begins_at", "failures"):
        if begins_at <= last:  # the clock of the database may be ahead
            curves[group][(begins_at - first) // STEP] = float(failures)
    return curves


def sparkline(values: Sequence[float]) -> str:
    """Return a small curve, with its sum for screen readers."""
    line, _dots = paths(values, scale_end(max(values)))
    words = _("%(count)s in 24 hours") % {"count": exact(int(sum(values)))}
    return format_html(
        '<svg class="mq-spark" viewBox="0 -4 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<title>{}</title><path class="mq-drawn mq-spark-line" d="{}"/></svg>',
        *(WIDTH, HEIGHT + 8, words, words, line),
    )


def chart_of(values: Sequence[float]) -> Any:
    line = Line("failed", _("failures"), values)
    return draw(_("Failures in ten minutes"), [line], unit="", begins=_("24 hours ago"), ends=_("now"))


def examples(group: FailureGroup) -> list[Attempt]:
    """Return the newest failed attempts of a group."""
    newest = GroupedFailure.objects.using(alias()).filter(group=group).order_by("-attempt_id")
    keys = list(newest.values_list("attempt_id", flat=True)[:EXAMPLES])
    return [shown(attempt) for attempt in Attempt.objects.using(alias()).filter(pk__in=keys)]
