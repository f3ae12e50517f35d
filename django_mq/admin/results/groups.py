"""Chords, and groups that were saved, with how many of their members have ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.filters import Filter
from django_mq.admin.paginator import BoundedChangeList, BoundedPaginator
from django_mq.admin.table import ReadOnly, TableAdmin, alias
from django_mq.diagnosis.language import exact
from django_mq.diagnosis.messages import slices
from django_mq.results import members
from django_mq.results.models import Chord, ChordMember, ResultGroup, StoredResult

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList
    from django.db.models import Q, QuerySet
    from django.http import HttpRequest

#: The most members on the page of a chord or a group.
SHOWN = 200
#: A filter looks at this many rows, those that expire last.
SAMPLE = 100_000


class GroupRows(ReadOnly, TableAdmin):
    """Rows with the id of a group as the key, those first that expire last: the newest, by an index."""

    paginator = BoundedPaginator
    sortable_by = ()
    ordering = ["-expires_at"]
    search_fields = ["group_id"]
    search_help_text = gettext_lazy("The whole id of a group.")
    id_form = re.compile(r"[^\x00]{1,255}")
    change_form_template = "admin/django_mq/resultgroup/change_form.html"

    expires = columns.ago_column("expires_at", gettext_lazy("expires"))

    def meant_by(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        return queryset.filter(pk=term)

    def find(
        self, request: HttpRequest, rows: QuerySet[Any], limit: int, *, among: Q | None = None
    ) -> slices.FoundKeys:
        if rows.query.where and not request.GET.get("q"):
            newest = self.get_queryset(request).order_by("-expires_at").values_list("expires_at", flat=True)
            border = next(iter(newest[SAMPLE : SAMPLE + 1]), None)
            rows = rows if border is None else rows.filter(expires_at__gte=border)
        return slices.as_listed(rows.filter(among) if among else rows, limit)

    @admin.display(description=gettext_lazy("expires"))
    def expiry(self, row: Any) -> str:
        return "-" if row.expires_at is None else columns.ago(row.expires_at)

    def address_of(self, row: int | None) -> str:
        return "" if row is None else self.page_address(StoredResult, row)


class ChordStateFilter(Filter):
    title, parameter_name = gettext_lazy("state"), "state"
    offered = [("waiting", gettext_lazy("waiting")), ("ended", gettext_lazy("ended"))]

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(ended_at=None) if value == "waiting" else rows.exclude(ended_at=None)


class ChordAdmin(GroupRows):
    """Chords that wait for their members, and those that have ended, until they expire."""

    late = ["body"]
    list_display = ["group", "situation", "members_ended", "failed_shown", "ended", "expiry"]
    list_filter = [ChordStateFilter]
    fieldsets = [
        (None, {"fields": ["group_id", "situation", "members_ended", "failed_shown"]}),
        (gettext_lazy("Times"), {"fields": ["ended_at", "expires_at"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Chord]:
        rows: QuerySet[Chord] = super().get_queryset(request)
        return rows.defer("body")

    @admin.display(description=gettext_lazy("group"))
    def group(self, row: Chord) -> str:
        return columns.clip(row.group_id)

    @admin.display(description=gettext_lazy("state"))
    def situation(self, row: Chord) -> str:
        if row.carried_until is not None:
            return _("ends now")
        if row.ended_at is not None:
            return _("ended")
        words = _("waiting") if row.size is not None else _("waiting for its publisher")
        return format_html("<strong>{}</strong>", words)

    @admin.display(description=gettext_lazy("members that have ended"))
    def members_ended(self, row: Chord) -> str:
        return f"{exact(row.counted)} / {'?' if row.size is None else exact(row.size + row.added)}"

    @admin.display(description=gettext_lazy("failed"))
    def failed_shown(self, row: Chord) -> str:
        words = exact(row.failed)
        return format_html('<span class="mq-warn">{}</span>', words) if row.failed else words

    @admin.display(description=gettext_lazy("ended"))
    def ended(self, row: Chord) -> str:
        return "-" if row.ended_at is None else columns.ago(row.ended_at)

    def details(self, request: HttpRequest, row: Chord) -> dict[str, Any]:  # noqa: ARG002 - as above
        found = list(
            ChordMember.objects.using(alias())
            .filter(group_id=row.group_id)
            .order_by("position", "id")
            .values_list("task_id", "status")[: SHOWN + 1]
        )
        rows = StoredResult.objects.using(alias()).filter(task_id__in=[task_id for task_id, _status in found])
        known = dict(rows.order_by().values_list("task_id", "pk"))
        listed = [(task_id, self.address_of(known.get(task_id)), status) for task_id, status in found[:SHOWN]]
        none = "" if row.ended_at is None else _("The members are deleted when the chord ends.")
        return {"members": listed, "is_cut": len(found) > SHOWN, "none": none}


class GroupChangeList(BoundedChangeList):
    """A list of groups that counts the members of the small ones."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        counted = members.count(self.result_list, using=alias())
        for row in self.result_list:
            row.ended = counted.get(row.group_id)


class ResultGroupAdmin(GroupRows):
    """Groups that a program has saved, and chords of which members are groups."""

    late = ["members"]
    list_display = ["group", "members_ended", "expiry"]
    fieldsets = [(None, {"fields": ["group_id", "members_ended", "expires_at"]})]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # noqa: ARG002 - as above
        return GroupChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return members.with_head(super().get_queryset(request))

    @admin.display(description=gettext_lazy("group"))
    def group(self, row: ResultGroup) -> str:
        return columns.clip(row.group_id)

    @admin.display(description=gettext_lazy("members that have ended"))
    def members_ended(self, row: Any) -> str:
        ended = row.ended if hasattr(row, "ended") else _ended(_members(row))
        if ended is None:
            return _("many: see the page of the group") if row.length > members.HEAD else "-"
        words = f"{exact(ended.ended)} / {exact(ended.members)}"
        return _("%(share)s of the first ones") % {"share": words} if ended.is_cut else words

    def details(self, request: HttpRequest, row: ResultGroup) -> dict[str, Any]:  # noqa: ARG002 - as above
        found = _members(row)
        listed = [(each.task_id, self.address_of(each.row), each.state or "-") for each in (found or [])[:SHOWN]]
        none = _("The members cannot be read without their serialiser.") if found is None else ""
        return {"members": listed, "is_cut": len(found or ()) > SHOWN, "none": none}


def _members(row: Any) -> list[members.Member] | None:
    """Return the first members of a group, looked for once for each row; None if they cannot be read."""
    if not hasattr(row, "found"):
        ids = members.task_ids_in(row.members, row.content_type)
        row.found = None if ids is None else members.members(ids, using=alias())
    return row.found  # type: ignore[no-any-return] # set above


def _ended(found: list[members.Member] | None) -> members.EndedMembers | None:
    if found is None:
        return None
    ended = sum(each.state in members.ENDED for each in found)
    return members.EndedMembers(ended, len(found), is_cut=len(found) == members.MOST)
