"""The exceptions of limits, which operators edit."""

from __future__ import annotations

from django_mq.admin.table import TableAdmin


class LimitExceptionAdmin(TableAdmin):
    list_display = ["queue_name", "limit_name", "limited_key", "amount", "seconds", "burst", "at_once"]
    search_fields = ["queue_name", "limited_key"]
    fields = ["queue_name", "limit_name", "limited_key", "amount", "seconds", "burst", "at_once"]
