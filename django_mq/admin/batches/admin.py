"""The list of batches, and the page of one: its failed members and its callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.actions import Action, ActionAdmin, Preview
from django_mq.admin.addresses import message_address
from django_mq.admin.batches.actions import ACTIONS, CANCEL, CLOSE, DELETE, REDRIVE
from django_mq.admin.filters import SpanFilter
from django_mq.admin.paginator import UUID_FORM, BoundedPaginator
from django_mq.admin.table import ReadOnly, alias
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.diagnosis.language import exact, second_text
from django_mq.diagnosis.messages.terms import newest_by
from django_mq.engine.decisions.batches import LIVE, BatchCallback, BatchState, MemberState
from django_mq.models import Message
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django_stubs_ext import StrOrPromise

#: Failed members on the page of a batch.
MOST_SHOWN: Final = 50
#: The names of callbacks.
WHEN: Final = {
    BatchCallback.COMPLETE: gettext_lazy("when complete"),
    BatchCallback.SUCCESS: gettext_lazy("when successful"),
    BatchCallback.FAILURE: gettext_lazy("at the first failure"),
}
#: What an action changes: members in this state.
CHANGED: Final = {CANCEL.name: MemberState.WAITING, REDRIVE.name: MemberState.FAILED}


#: The counts on the page of a batch.
COUNTS: Final = ("waiting_shown", "succeeded_shown", "failed_shown", "cancelled_shown")


def number_column(field: str, label: StrOrPromise) -> Any:
    """Return a column with the number in this field."""

    @admin.display(description=label)
    def column(_page: Any, row: MessageBatch) -> str:
        return exact(getattr(row, field))

    return column


class BegunFilter(SpanFilter):
    """When batches began."""

    title, field = gettext_lazy("time begun"), "created_at"


class MessageBatchAdmin(ReadOnly, ActionAdmin):
    """Lists show the counts that the maintenance has written: no page counts the members of a batch."""

    paginator = BoundedPaginator
    actions = ACTIONS
    list_display = ["what", "situation", "progress", *COUNTS[1:], "begun", "ended"]
    list_filter = ["state", BegunFilter]
    search_fields = ["name"]
    search_help_text = gettext_lazy(
        "Search for the id of a batch, or, among the newest 100,000 batches, for a part of a name."
    )
    sortable_by = ()
    ordering = ["-created_at"]
    id_form = UUID_FORM
    fieldsets = [
        (
            None,
            {"fields": ["name", "id", "situation", "progress", COUNTS]},
        ),
        (gettext_lazy("Times"), {"fields": [("created_at", "cancelled_at", "ended_at"), "counted_at"]}),
    ]
    change_form_template = "admin/django_mq/messagebatch/change_form.html"

    waiting_shown = number_column("waiting", gettext_lazy("waiting"))
    succeeded_shown = number_column("succeeded", gettext_lazy("succeeded"))
    failed_shown = number_column("failed", gettext_lazy("failed"))
    cancelled_shown = number_column("cancelled", gettext_lazy("cancelled"))
    begun = columns.ago_column("created_at", gettext_lazy("begun"))

    def meant_by(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        if UUID_FORM.fullmatch(term.lower()):
            return queryset.filter(pk=term)
        return newest_by(queryset, "created_at").filter(name__icontains=term)

    @admin.display(description=gettext_lazy("batch"))
    def what(self, row: MessageBatch) -> str:
        return columns.clip(row.name) if row.name else columns.short_id(row.pk)

    @admin.display(description=gettext_lazy("status"))
    def situation(self, row: MessageBatch) -> str:
        label = str(row.get_state_display())
        if row.state == BatchState.FAILED.value or row.problem:
            label = format_html('<span class="mq-warn">{}</span>', label)
        if row.state in LIVE_STATES and row.cancelled_at is not None:
            return format_html("{}, {}", label, _("is being cancelled"))
        return label

    @admin.display(description=gettext_lazy("progress"))
    def progress(self, row: MessageBatch) -> str:
        if row.counted_at is None:
            return _("not counted yet")
        counts = row.counts
        words = _("%(ended)s of %(total)s") % {"ended": exact(counts.ended), "total": exact(counts.total)}
        return format_html(
            '<progress max="{}" value="{}" aria-label="{}"></progress> <span data-mq-news>{}</span>',
            max(counts.total, 1),
            counts.ended if counts.total else int(row.state not in LIVE_STATES),
            words,
            words,
        )

    @admin.display(description=gettext_lazy("ended"), empty_value="-")
    def ended(self, row: MessageBatch) -> str | None:
        return None if row.ended_at is None else columns.ago(row.ended_at)

    def preview(self, action: Action, chosen: Sequence[MessageBatch]) -> Preview:  # noqa: ARG002 - of other actions
        rows = [(str(row), str(row.get_state_display()), exact(row.counts.total)) for row in chosen]
        return Preview([_("Batch"), _("Status"), _("Members")], rows)

    def count_up_to(self, action: Action, chosen: Sequence[MessageBatch], limit: int) -> int:
        if action.name not in CHANGED:
            return 0
        members = BatchMember.objects.using(alias()).filter(batch__in=[row.pk for row in chosen])
        return members.filter(state=CHANGED[action.name].value)[:limit].count()

    def details(self, request: HttpRequest, row: MessageBatch) -> dict[str, Any]:
        is_live = row.state in LIVE_STATES
        fit = [CLOSE] if row.state == BatchState.OPEN.value else []
        fit += [CANCEL] if is_live else []
        failed = self._failed(request, row)
        fit += [REDRIVE] if failed else []
        fit += [] if is_live else [DELETE]
        offered = [(action.name, str(action.label)) for action in fit if self.may_do(request, action)]
        return self.buttons(offered) | {
            "callbacks": list(self._callbacks(request, row)),
            "failed": failed,
            "is_cut": len(failed) == MOST_SHOWN,
            "may_see_messages": self.may(request, "view_message"),
        }

    def _failed(self, request: HttpRequest, row: MessageBatch) -> list[dict[str, Any]]:
        """Return the first members that have failed."""
        may_look = self.may(request, "view_message")
        members = BatchMember.objects.using(alias()).filter(batch=row.pk, state=MemberState.FAILED.value)
        found = list(members.order_by("id")[:MOST_SHOWN])
        dead: dict[Any, Message] = {}
        if may_look and found:
            rows = Message.objects.using(alias()).filter(message_id__in=[member.message_id for member in found])
            dead = {each.message_id: each for each in rows.only("message_id", "state", "dead_reason", "queue")}
        return [
            {
                "id": member.message_id,
                "address": message_address(self, member.message_id) if may_look else "",
                "queue": member.queue_name,
                "reason": _fate(dead.get(member.message_id)) if may_look else "",
                "ended": columns.ago(member.ended_at) if member.ended_at is not None else "-",
            }
            for member in found
        ]

    def _callbacks(self, request: HttpRequest, row: MessageBatch) -> list[dict[str, Any]]:
        may_look = self.may(request, "view_message")
        found = []
        for each in BatchCallback:
            text, at = getattr(row, f"on_{each.value}"), getattr(row, f"{each.value}_at")
            if text or at is not None:
                target, message_id = _target(text)
                found.append(
                    {
                        "when": WHEN[each],
                        "target": target,
                        "published": second_text(at) if at is not None else "",
                        "address": message_address(self, message_id) if may_look and at is not None else "",
                    }
                )
        return found


LIVE_STATES: Final = frozenset(state.value for state in LIVE)


def _fate(letter: Message | None) -> str:
    """Return what is known of a member that has failed."""
    if letter is None:
        return _("not in a queue any more")
    return letter.dead_reason or columns.state_name(letter.state)


def _target(text: str) -> tuple[str, Any]:
    """Return where a stored callback goes, and the id of its message, if it is known before it is published."""
    given: Any = headers_in(text)
    if isinstance(task := given.get("signature"), dict):
        return str(task.get("task", "")), None
    message_id = str(given.get("message_id", ""))
    return str(given.get("queue_name", "")), message_id if UUID_FORM.fullmatch(message_id) else None
