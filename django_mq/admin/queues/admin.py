"""The list of queues, and the page of one."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.forms import Media
from django.http import HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns, report, retries, tenants
from django_mq.admin.actions import ActionAdmin, Preview
from django_mq.admin.filters import DELIVERY
from django_mq.admin.overview import page as overview
from django_mq.admin.overview import past, space
from django_mq.admin.overview.alerts import delivery_column
from django_mq.admin.panels import panels_of
from django_mq.admin.queues import now
from django_mq.admin.queues.actions import ACTIONS, DELETE, FREE_GROUPS, PAUSE, PURGE, REDRIVE, RESUME
from django_mq.admin.queues.form import QueueForm, form_class, has_error, option_fieldsets, without_fold
from django_mq.admin.table import TableAdmin, alias
from django_mq.admin.tabs import tabs_of
from django_mq.delivery.operator.queue_editor import forget
from django_mq.diagnosis.language import LOCAL
from django_mq.diagnosis.messages.indexes import RETRYING
from django_mq.diagnosis.state.fleet import fleet, supplies
from django_mq.diagnosis.state.groups import groups
from django_mq.diagnosis.state.obstacles import obstacles
from django_mq.diagnosis.state.overview import states_of, with_facts
from django_mq.diagnosis.state.shares import shares
from django_mq.diagnosis.state.unwanted import unwanted
from django_mq.engine.decisions.dead_letters import is_default
from django_mq.errors import MQError
from django_mq.models import Message, Queue, WorkerSession
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django import forms
    from django.contrib.admin.views.main import ChangeList
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse
    from django_stubs_ext import StrOrPromise

    from django_mq.acts.models import Act
    from django_mq.admin.actions import Action
    from django_mq.diagnosis.state.fleet import Supply
    from django_mq.diagnosis.state.groups import Group
    from django_mq.stores.records import Counts


def _workers() -> tuple[Counter[str], Mapping[str, Supply], Counter[str]]:
    """Return, for each queue, the live workers, what they supply, and the messages that no consumer wants."""
    workers = fleet(using=alias())
    every = Counter(name for worker in workers if not worker.stale for name in worker.queues)
    return every, supplies(workers), Counter(unwanted(workers, using=alias()))


def _count_column(state: Message.Status | str, label: StrOrPromise, count_of: Callable[[Counts], int]) -> Any:
    """Return a column with the number of messages in a state of the filter, linked to their list."""

    @admin.display(description=label)
    def column(page: QueueAdmin, queue: Queue) -> str:
        count = count_of(page.counts(queue))
        address = page.list_address(Message, queue=queue.name, state=str(state))
        link = format_html('<a href="{}">{}</a>', address, LOCAL.bounded(count)) if count else "0"
        bad = count and state is Message.Status.DEAD
        return format_html('<span class="mq-bad">{}</span>', link) if bad else link

    return column


class QueueAdmin(ActionAdmin):
    pages = {
        "overview/": overview.page,
        "overview.json": overview.as_json,
        "charts/": past.page,
        "space/": space.page,
        "tenants/": tenants.page,
    }
    actions = ACTIONS
    form = QueueForm
    change_form_template = "admin/django_mq/queue/change_form.html"
    refresh_template = "admin/django_mq/queue/live.html"
    list_display = [
        *("name_shown", "ready", "oldest_ready", "scheduled", "retrying"),
        *("claimed", "dead", "pausing", "role"),
    ]
    list_filter = ["paused", "closed", "kind"]
    search_fields = ["name"]
    list_select_related = ["dead_letter_queue", "expiry_queue"]
    name_shown = columns.name_column("name", gettext_lazy("name"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Queue]:
        queues: QuerySet[Queue] = super().get_queryset(request)
        return with_facts(queues.select_related(*self.list_select_related))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return option_fieldsets(obj)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(request, obj, change, form=form_class(), **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["name"] if obj else []

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        opened = [
            (name, without_fold(options) if has_error(options, context["adminform"].form) else options)
            for name, options in context["adminform"].fieldsets
        ]
        context["adminform"].fieldsets = opened
        if kwargs["obj"] is not None:
            context["media"] += Media(js=["django_mq/charts.js"])
        return super().render_change_form(request, context, *args, **kwargs)

    # Counts and consumers: one statement each for all rows of a page.

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        changelist = super().get_changelist_instance(request)
        counts, workers = columns.measure(changelist.result_list), _workers()
        states = states_of(list(changelist.result_list), counts, workers[0], using=alias())
        for queue, state in zip(changelist.result_list, states, strict=True):
            queue.counts, queue.workers, queue.now_in = counts[queue.name], workers, state
        return changelist

    @staticmethod
    def counts(queue: Any) -> Counts:
        """Return the counts, which the page of a single queue has not fetched yet."""
        if not hasattr(queue, "counts"):
            queue.counts = columns.measure([queue])[queue.name]
        counts: Counts = queue.counts
        return counts

    ready = _count_column(Message.Status.READY, Message.Status.READY.label, lambda counts: counts.ready)
    scheduled = _count_column(
        Message.Status.SCHEDULED, Message.Status.SCHEDULED.label, lambda counts: counts.scheduled - counts.retrying
    )
    retrying = _count_column(RETRYING, gettext_lazy("retrying"), lambda counts: counts.retrying)
    claimed = _count_column(Message.Status.CLAIMED, Message.Status.CLAIMED.label, lambda counts: counts.claimed)
    dead = _count_column(Message.Status.DEAD, Message.Status.DEAD.label, lambda counts: counts.dead)

    @admin.display(description=gettext_lazy("oldest ready"))
    def oldest_ready(self, queue: Queue) -> str:
        counts = self.counts(queue)
        age = LOCAL.age(counts.oldest_ready_seconds, is_exact=counts.is_oldest_exact)
        return format_html('<span class="mq-ago">{}</span>', age)

    @admin.display(description=gettext_lazy("delivery"))
    def pausing(self, queue: Queue) -> str:
        _every, supply, left = queue.workers  # type: ignore[attr-defined] # set for the rows of the list
        return delivery_column(queue.now_in, supply[queue.name].awake, left[queue.name])  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("dead letters"))
    def role(self, queue: Any) -> str:
        if queue.takes_dead_letters:
            return _("takes those of others")
        if queue.dead_letter_exchange:
            is_named = is_default(queue.dead_letter_exchange) and queue.dead_letter_routing_key
            target = queue.dead_letter_routing_key if is_named else queue.dead_letter_exchange
            return columns.breakable(_("go to %(queue)s") % {"queue": target})
        if queue.dead_letter_queue is None:
            return _("stay here")
        return columns.breakable(_("go to %(queue)s") % {"queue": queue.dead_letter_queue.name})

    def details(self, request: HttpRequest, row: Queue) -> dict[str, Any]:
        buttons = self.buttons(self._buttons_for(request, row)) | {"tabs": tabs_of(self, request, row)}
        if request.method == "POST":  # the errors of the settings come first
            return buttons
        ready = str(Message.Status.READY.value)
        line = self.list_address(Message, queue=row.name, state=ready, order=DELIVERY)
        figures = now.figures_of(row, self.counts(row))
        told = {
            "line_address": line,
            "now": now.parts(self, request, figures),
            "groups": self._groups(request, row),
            "waiting_keys": figures.waiting if self.may(request, "view_message") else [],
            "shares": shares(row, using=alias()) if self.may(request, "view_message") else [],
            "panels": [*retries.of_queue(row), *panels_of(request, row)],
        }
        return buttons | told

    def _groups(self, request: HttpRequest, queue: Queue) -> list[tuple[Group, str]]:
        """Return the groups and consumer slots, if the queue has any, with the URLs of their workers."""
        options = queue.options
        if options.slots is None and not options.has_groups:
            return []
        if not self.may(request, "view_message"):
            return []
        found = groups(queue.pk, using=alias())
        return [(one, self.page_address(WorkerSession, one.session_id) if one.worker else "") for one in found]

    def _buttons_for(self, request: HttpRequest, queue: Queue) -> list[tuple[str, str]]:
        fit = [RESUME if pauses(queue) else PAUSE, REDRIVE, FREE_GROUPS, PURGE]
        if not queue.options.groups_stay:
            fit.remove(FREE_GROUPS)
        if not self.counts(queue).dead and not is_taker(queue):
            fit.remove(REDRIVE)
        return [(action.name, str(action.label)) for action in fit if self.may_do(request, action)]

    def may_do(self, request: HttpRequest, action: Action) -> bool:
        return self.has_delete_permission(request) if action is DELETE else super().may_do(request, action)

    def restrict(self, request: HttpRequest, form: forms.Form) -> None:
        """To delete messages takes the permission to purge."""
        if "force" in form.fields and not self.may_do(request, PURGE):
            form.fields["force"].disabled = True

    def preview(self, action: Action, chosen: Sequence[Queue]) -> Preview:
        rows = [
            [name, *map(LOCAL.bounded, (found.ready, found.scheduled, found.dead, found.claimed))]
            for name, found in columns.measure(chosen).items()
        ]
        names = [queue.name for queue in chosen] if action is REDRIVE else []
        more = report.obstacles(obstacles(names, using=alias()))
        return Preview([_("Queue"), _("Ready"), _("Scheduled"), _("Dead"), _("Held by workers")], rows, more)

    def count_up_to(self, action: Action, chosen: Sequence[Queue], limit: int) -> int:
        if action not in {PURGE, REDRIVE, DELETE}:
            return 0
        found = columns.measure(chosen)
        if action is REDRIVE:
            return sum(
                found[queue.name].dead + (found[queue.name].ready if is_taker(queue) else 0) for queue in chosen
            )
        return sum(each.total - each.claimed for each in found.values())

    def run_on(
        self, action: Action, answers: Mapping[str, Any], request: HttpRequest, row: Queue, act: Act
    ) -> str:
        if action is not DELETE:
            return super().run_on(action, answers, request, row, act)
        if not self.has_delete_permission(request, row):  # on a site's own page
            raise MQError(_("You may not delete “%(queue)s”.") % {"queue": row.name})
        sentence: str = action.run(row, answers, act)
        super(TableAdmin, self).log_deletions(request, [row])  # type: ignore[arg-type] # any iterable will do
        return sentence

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm[Any], change: bool) -> None:
        super().save_model(request, obj, form, change)
        # The limits may have changed, so count the messages anew.
        Queue.objects.using(alias()).filter(pk=obj.pk).update(counted_at=None)
        forget(obj.name, using=alias())
        if change and {"kind", "levels"} & set(form.changed_data) and self.counts(obj).total:
            self.message_user(request, _("The messages already in this queue keep their level."), messages.WARNING)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Delete as the action does: the store refuses what the ORM would delete in a cascade."""
        queue = self.get_object(request, unquote(object_id))
        if not self.has_delete_permission(request, queue):
            raise PermissionDenied
        if queue is None:
            self.message_user(request, _("There is no such queue."), messages.WARNING)
            return HttpResponseRedirect(self.list_address(Queue))
        question = self.carry_out(DELETE, request, self.get_queryset(request).filter(pk=queue.pk))
        return question or HttpResponseRedirect(self.list_address(Queue))


def pauses(queue: Queue) -> bool:
    return queue.name in shared_store(alias()).queues.paused([queue.name])


def is_taker(queue: Any) -> bool:
    return bool(getattr(queue, "takes_dead_letters", False))
