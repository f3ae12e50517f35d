"""The page of tenants: those with most messages, failures or time, of all queues or of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_mq.admin.addresses import search_address
from django_mq.admin.columns import breakable
from django_mq.admin.table import alias
from django_mq.admin.tabs import queue_in, tabs_of
from django_mq.diagnosis.language import LOCAL, exact, time_text
from django_mq.models import Queue
from django_mq.tenants.declared import queues_with, tenant_key, title_of
from django_mq.tenants.figures import MEASURES, SPANS, top_tenants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin
    from django_mq.tenants.figures import TenantFigures, TopTenants

#: The most tenants on the page.
SHOWN: Final = 50
#: What a column counts failures of.
BAD: Final = ("failed", "dead")


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show the first tenants of a span. Their names are contents of messages, which take a permission, too."""
    key = tenant_key()
    if key is None:
        raise Http404
    if not admin.may(request, "view_message"):
        raise PermissionDenied
    queue = queue_in(request)
    if queue is None and request.GET.get("queue"):
        raise Http404
    span = SPANS.get(request.GET.get("span", ""), SPANS["hour"])
    by = request.GET.get("by", "")
    by = by if by in MEASURES else MEASURES[0]
    name = queue.name if queue else None
    found = top_tenants(key, span, by=by, queue=name, most=SHOWN, using=alias())
    given = {"span": span.name, "by": by, "queue": name or ""}
    queues = [each.name for each in queues_with(key, using=alias())]
    return admin.page(
        request,
        "tenants",
        name or title_of(key),
        key=key,
        heading=title_of(key),
        found=found,
        rows=[
            _row(row, by, found, breakable(row.tenant), search_address(admin, key, row.tenant))
            for row in found.tenants
        ],
        rest=list(_rest(key, by, found)),
        columns=_columns(given),
        spans=_spans(given),
        queue=name,
        queues=queues,
        is_declared=bool(queues) if name is None else name in queues,
        all_queues=_link(given, queue=""),
        given=given,
        waiting_at=found.waiting_at and time_text(found.waiting_at),
        shown=SHOWN,
        overview=f"{admin.list_address(Queue)}overview/",
        queue_address=admin.page_address(Queue, queue.pk) if queue else "",
        tabs=tabs_of(admin, request, queue),
    )


def _row(row: TenantFigures, by: str, found: TopTenants, name: str, address: str = "") -> dict[str, Any]:
    """Return a line of the table: the figures as texts, whether they are bad, and the share of the sorted one."""
    texts = {
        "accepted": exact(row.accepted),
        "waiting": "-" if row.waiting is None else exact(row.waiting),
        "failed": exact(row.failed),
        "dead": exact(row.dead),
        "wait_p95": LOCAL.precise(row.wait_p95),
        "run_seconds": LOCAL.precise(row.run_seconds) if row.run_seconds else "-",
    }
    cells = [(texts[each], each in BAD and bool(getattr(row, each)), each == by) for each in MEASURES]
    whole, part = getattr(found.total, by), getattr(row, by)
    share = f"{LOCAL.digits(100 * part / whole)} %" if whole and part else ""
    return {"name": name, "title": row.tenant, "address": address, "cells": cells, "share": share}


def _rest(key: str, by: str, found: TopTenants) -> Iterator[dict[str, Any]]:
    """Yield the lines below those of the tenants."""
    names = {
        _("All others"): found.others,
        _("Without %(key)s") % {"key": key}: found.nameless,
        _("All"): found.total,
    }
    for name, row in names.items():
        if row is found.total or any(getattr(row, each) for each in MEASURES):
            yield _row(row, by, found, name)


def _columns(given: dict[str, str]) -> list[tuple[str, str, bool]]:
    """Return the headings: label, the address of the page sorted by it, and whether it is."""
    labels = {
        "accepted": _("Finished"),
        "waiting": _("Waiting now"),
        "failed": _("Failed attempts"),
        "dead": _("Died"),
        "wait_p95": _("Wait, 95 %"),
        "run_seconds": _("Held in all"),
    }
    return [(labels[each], _link(given, by=each), each == given["by"]) for each in MEASURES]


def _spans(given: dict[str, str]) -> list[tuple[str, str, bool]]:
    labels = {"hour": _("Last hour"), "day": _("Last day"), "week": _("Last 7 days")}
    return [(labels[each], _link(given, span=each), each == given["span"]) for each in SPANS]


def _link(given: dict[str, str], **changed: str) -> str:
    return f"?{urlencode({name: value for name, value in (given | changed).items() if value})}"
