"""The bridges of the settings and of queues: what each does, which workers forward, and what waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin import columns
from django_mq.admin.table import alias
from django_mq.bridges.declared import shown_address
from django_mq.bridges.findings import sentences
from django_mq.bridges.models import BridgeLink
from django_mq.bridges.reports import every_report, known_bridges
from django_mq.diagnosis.language import LOCAL, exact
from django_mq.engine.decisions.bridges import BridgeCondition
from django_mq.models import Queue

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from django_mq.admin.table import TableAdmin
    from django_mq.bridges.reports import BridgeReport

#: What a bridge does, in a word or two.
WORDS: Final = {
    BridgeCondition.FORWARDS: gettext_lazy("forwards"),
    BridgeCondition.LATE: gettext_lazy("forwards, late"),
    BridgeCondition.BLOCKED: gettext_lazy("blocked by the broker"),
    BridgeCondition.AWAY: gettext_lazy("cannot reach the broker"),
    BridgeCondition.STOPPED: gettext_lazy("no worker"),
    BridgeCondition.UNKNOWN: gettext_lazy("not in the settings"),
}


def page(admin: TableAdmin, request: HttpRequest) -> HttpResponse:
    """Show the bridges. Names of queues take the permission to view queues."""
    found = every_report(alias())
    may_view = admin.may(request, "view_queue")
    keys = _keys(found) if may_view else {}
    used = {report.name for report in found}
    return admin.page(
        request,
        "bridges",
        _("Bridges"),
        rows=[_row(admin, report, keys, may_view=may_view) for report in found],
        unused=[(name, shown_address(bridge)) for name, bridge in known_bridges().items() if name not in used],
        connections=admin.list_address(BridgeLink),
    )


def _keys(found: list[BridgeReport]) -> dict[str, int]:
    """Return the keys of the queues that exist."""
    names = [name for report in found for name in report.queues]
    return dict(Queue.objects.using(alias()).filter(name__in=names).values_list("name", "pk")) if names else {}


def _row(admin: TableAdmin, report: BridgeReport, keys: dict[str, int], *, may_view: bool) -> dict[str, Any]:
    condition, is_problem = report.condition, report.is_problem
    shown = report.queues if may_view else ()
    return {
        "name": report.name,
        "target": "-" if report.bridge is None else columns.clip(shown_address(report.bridge)),
        "queues": [(name, admin.page_address(Queue, keys[name]) if name in keys else "") for name in shown],
        "status": WORDS[condition],
        "css": "mq-bad" if is_problem else "mq-warn" if condition is BridgeCondition.LATE else "",
        "since": None if report.since is None else columns.ago(report.since),
        "mend": sentences(condition)[1] if is_problem and condition is not BridgeCondition.UNKNOWN else "",
        "error": columns.clip(report.last_error) if is_problem else "",
        "ready": exact(report.ready),
        "oldest": LOCAL.duration(report.oldest_seconds) if report.ready else "-",
        "is_late": report.is_late,
        "per_minute": LOCAL.rate(60 * report.per_second),
        "workers": [(link.worker, link.get_state_display(), columns.ago(link.since)) for link in report.links],
    }
