"""The exceptions of limits, which operators edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.table import TableAdmin
from django_mq.limits.declared import rate_in_words, slots_in_words

if TYPE_CHECKING:
    from django_mq.models import LimitException


class LimitExceptionAdmin(TableAdmin):
    list_display = ["key", "queue_name", "limit_name", "allowed"]
    search_fields = ["queue_name", "limited_key"]
    sortable_by = ()
    ordering = ["queue_name", "limit_name", "limited_key"]
    fields = ["queue_name", "limit_name", "limited_key", ("amount", "seconds"), "burst", "at_once"]

    @admin.display(description=gettext_lazy("key"))
    def key(self, row: LimitException) -> str:
        return columns.clip(row.limited_key or _("the whole queue"))

    @admin.display(description=gettext_lazy("allowed"))
    def allowed(self, row: LimitException) -> str:
        said = []
        if row.amount is not None and row.seconds is not None:
            said.append(rate_in_words(row.amount, row.seconds, row.burst or 1))
        if row.at_once is not None:
            said.append(slots_in_words(row.at_once))
        return "; ".join(said)
