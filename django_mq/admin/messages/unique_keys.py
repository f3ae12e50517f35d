"""The list of unique keys, and the action that frees a key."""

# ruff: noqa: ARG002 - Django calls these with arguments of its own

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.acts.command_lines import line
from django_mq.admin import columns
from django_mq.admin.actions import Action, ActionAdmin, GoneError, Preview
from django_mq.admin.addresses import message_address
from django_mq.admin.forms import Confirmation
from django_mq.admin.table import ReadOnly, alias
from django_mq.diagnosis.language import time_text
from django_mq.diagnosis.messages import slices
from django_mq.diagnosis.state.unique_keys import with_standing
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.db.models import Q, QuerySet
    from django.http import HttpRequest

    from django_mq.models import UniqueKey


def name_of(key: UniqueKey) -> str:
    """Return what an operator knows a key by."""
    return key.label or _("its arguments")


def _free(key: UniqueKey, _answers: Mapping[str, Any]) -> str:
    words = {"key": name_of(key)}
    if not shared_store(alias()).unique_keys.free(key.digest):
        raise GoneError(_("“%(key)s” is free already.") % words)
    return _("“%(key)s” is free.") % words


FREE = Action(
    name="free",
    permission="free_uniquekey",
    label=gettext_lazy("Free"),
    run=_free,
    command=lambda key, _answers: line("mq_unique", "--free", names=[key.label or key.message_id]),
    question=Confirmation,
    warning=gettext_lazy(
        "The next message with this key is published, also if the message that has the key is not finished. That "
        "message stays."
    ),
    harmful=True,
)


class UniqueKeyAdmin(ReadOnly, ActionAdmin):
    """The keys, each with the message that took it. A key that is free has a row until maintenance deletes it."""

    list_display = ["key", "held_until", "situation", "message", "taken"]
    list_filter = ["until"]
    search_fields = ["label", "owner"]
    search_help_text = gettext_lazy("Search for a key, or for the id of a message or of a Celery task.")
    sortable_by = ()
    ordering = ["digest"]
    actions = [FREE]
    change_form_template = "admin/django_mq/row.html"
    id_form = re.compile("[0-9a-f]{64}")
    fieldsets = [(None, {"fields": ["key", "held_until", "situation", "message_link", "owner", "first_at"]})]

    taken = columns.ago_column("first_at", gettext_lazy("taken"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return with_standing(super().get_queryset(request))

    def find(
        self, request: HttpRequest, rows: QuerySet[Any], limit: int, *, among: Q | None = None
    ) -> slices.FoundKeys:
        return slices.as_listed(rows.filter(among) if among else rows, limit)

    def preview(self, action: Action, chosen: Sequence[UniqueKey]) -> Preview:
        rows = [(name_of(key), str(key.message_id)) for key in chosen]
        return Preview([_("key"), _("message")], rows)

    @admin.display(description=gettext_lazy("key"))
    def key(self, key: UniqueKey) -> str:
        return columns.clip(name_of(key))

    @admin.display(description=gettext_lazy("state"))
    def situation(self, key: Any) -> str:
        return _("free") if key.is_free else format_html("<strong>{}</strong>", _("held"))

    @admin.display(description=gettext_lazy("until"))
    def held_until(self, key: UniqueKey) -> str:
        return key.get_until_display() if key.ends_at is None else time_text(key.ends_at)

    @admin.display(description=gettext_lazy("message"))
    def message(self, key: UniqueKey) -> str:
        return self._linked(key, columns.short_id(key.message_id))

    @admin.display(description=gettext_lazy("message"))
    def message_link(self, key: UniqueKey) -> str:
        return self._linked(key, str(key.message_id))

    def _linked(self, key: UniqueKey, text: str) -> str:
        address = message_address(self, key.message_id)
        return format_html('<a href="{}">{}</a>', address, text) if address else text

    def details(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return self.buttons([(FREE.name, str(FREE.label))] if self.may_do(request, FREE) else [])
