"""The list of events of durable handlers, and the page of one: its payload, and what waits for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.db.models import Count, F, IntegerField, OuterRef, Q, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.actions import Action, ActionAdmin, Preview
from django_mq.admin.addresses import message_address
from django_mq.admin.durable.actions import ACTIONS, DELETE, EMIT
from django_mq.admin.filters import SpanFilter
from django_mq.admin.paginator import BoundedPaginator
from django_mq.admin.table import ReadOnly, alias
from django_mq.diagnosis.language import exact, second_text
from django_mq.diagnosis.messages.masking import masked
from django_mq.diagnosis.messages.terms import newest_by
from django_mq.durable.events import is_there
from django_mq.durable.models import DurableEvent, DurableStep
from django_mq.engine.decisions.durable import StepOutcome
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest

#: Messages on the page of an event.
MOST_SHOWN: Final = 50


class EmittedFilter(SpanFilter):
    """When events were emitted."""

    title, field = gettext_lazy("time emitted"), "emitted_at"


class DurableEventAdmin(ReadOnly, ActionAdmin):
    """Events that were emitted, and those for which handlers wait."""

    paginator = BoundedPaginator
    actions = ACTIONS
    list_display = ["event", "key_shown", "situation", "waiting", "emitted", "kept"]
    list_filter = [EmittedFilter]
    search_fields = ["name", "key"]
    search_help_text = gettext_lazy("Search for a name or a key, among the newest 100,000 events.")
    sortable_by = ()
    ordering = ["-id"]
    fieldsets = [
        (None, {"fields": ["name", "key", "situation", "waiting", "payload_shown"]}),
        (gettext_lazy("Times"), {"fields": [("emitted_at", "expires_at", "waited_at")]}),
    ]
    change_form_template = "admin/django_mq/durableevent/change_form.html"

    event = columns.name_column("name", gettext_lazy("event"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[DurableEvent]:
        waits = DurableStep.objects.filter(event=OuterRef("pk"), outcome=StepOutcome.OPEN.value)
        count = waits.order_by().values("event").annotate(number=Count("pk")).values("number")
        rows: QuerySet[DurableEvent] = super().get_queryset(request)
        return rows.annotate(waiting_number=Subquery(count, output_field=IntegerField()))

    def meant_by(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        return newest_by(queryset, "pk").filter(Q(name__icontains=term) | Q(key__icontains=term))

    @admin.display(description=gettext_lazy("key"), empty_value="-")
    def key_shown(self, row: DurableEvent) -> str | None:
        return columns.clip(row.key) if row.key else None

    @admin.display(description=gettext_lazy("status"))
    def situation(self, row: DurableEvent) -> str:
        if row.emitted_at is None:
            return _("not emitted")
        return _("emitted") if is_there(row, clock.now()) else _("not kept any more")

    @admin.display(description=gettext_lazy("handlers that wait"))
    def waiting(self, row: Any) -> str:
        return exact(row.waiting_number or 0)

    @admin.display(description=gettext_lazy("emitted"), empty_value="-")
    def emitted(self, row: DurableEvent) -> str | None:
        return None if row.emitted_at is None else columns.ago(row.emitted_at)

    @admin.display(description=gettext_lazy("kept until"), empty_value="-")
    def kept(self, row: DurableEvent) -> str | None:
        return None if row.expires_at is None else second_text(row.expires_at)

    @admin.display(description=gettext_lazy("payload"))
    def payload_shown(self, row: DurableEvent) -> str:
        """Return the payload as JSON, without what MASK hides."""
        if row.emitted_at is None:
            return "-"
        return json.dumps(masked(json.loads(row.payload), ""), ensure_ascii=False, default=str)

    def preview(self, action: Action, chosen: Sequence[Any]) -> Preview:  # noqa: ARG002 - of other actions
        rows = [(row.name, row.key, self.situation(row), self.waiting(row)) for row in chosen]
        return Preview([_("Event"), _("Key"), _("Status"), _("Handlers that wait")], rows)

    def details(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        fit = [] if is_there(row, clock.now()) else [EMIT]
        fit += [] if row.waiting_number else [DELETE]
        offered = [(action.name, str(action.label)) for action in fit if self.may_do(request, action)]
        waits = self._waits(request, row)
        return self.buttons(offered) | {"waits": waits, "is_cut": len(waits) == MOST_SHOWN}

    def _waits(self, request: HttpRequest, row: DurableEvent) -> list[dict[str, Any]]:
        """Return the first messages whose handlers wait for the event."""
        may_look = self.may(request, "view_message")
        steps = DurableStep.objects.using(alias()).filter(event=row.pk, outcome=StepOutcome.OPEN.value)
        return [
            {
                "id": step.message_id,
                "address": message_address(self, step.message_id) if may_look else "",
                "queue": step.queue_name,
                "since": columns.ago(step.recorded_at),
                "until": second_text(step.until) if step.until is not None else _("without end"),
            }
            for step in steps.order_by(F("until").asc(nulls_last=True), "pk")[:MOST_SHOWN]
        ]
