"""The space that the tables take on the disk, by the database's statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from django_mq.admin.table import alias
from django_mq.diagnosis.language import LOCAL
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    store = shared_store(alias())
    spaces = store.server.spaces()
    return admin.page(
        request,
        "space",
        _("Space on the disk"),
        rows=[(one, None if one.tended_seconds is None else LOCAL.duration(one.tended_seconds)) for one in spaces],
        problems=store.server.space_problems(spaces),
        total=sum(one.size for one in spaces),
    )
