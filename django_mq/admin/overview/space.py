"""The space that the tables take on the disk, by the database's statistics, as a page and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from django.http import JsonResponse
from django.utils.translation import gettext as _

from django_mq.admin.columns import duration
from django_mq.admin.table import alias
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    store = shared_store(alias())
    spaces = store.spaces()
    return admin.page(
        request,
        "space",
        _("Space on the disk"),
        rows=[(one, None if one.tended_seconds is None else duration(one.tended_seconds)) for one in spaces],
        problems=store.space_problems(spaces),
        total=sum(one.size for one in spaces),
    )


def as_json(_admin: TableAdmin, _request: HttpRequest) -> HttpResponse:
    store = shared_store(alias())
    spaces = store.spaces()
    problems = [{"sentence": sentence, "mend": mend} for sentence, mend in store.space_problems(spaces)]
    return JsonResponse({"tables": [asdict(one) for one in spaces], "problems": problems})
