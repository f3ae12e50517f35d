"""The app in the menu of a site: its pages in the order in which operators use them, the overview first."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext as _

from django_mq.admin import live
from django_mq.diagnosis.messages.indexes import DEAD_LETTERS
from django_mq.tenants.declared import tenant_key, title_of

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite
    from django.http import HttpRequest

APP = "django_mq"
#: Stands for what runs now.
RUNNING = "Running"
#: Stands for the figures by tenant.
TENANTS = "Tenants"
#: The models in the order of the menu. DEAD_LETTERS stands for the messages that are dead letters.
ORDER = (
    *("Message", DEAD_LETTERS, "Queue", RUNNING, "WorkerSession", "Consumer", "History", "FailureGroup"),
    *(TENANTS, "StagedRedrive", "Attempt", "TaskResult", "PeriodicMessage", "UniqueKey", "Operation", "Act"),
    *("RecordedAlert", "SnoozedAlert", "Binding", "LimitException", "InsightHour", "ArchiveBatch", "BulkJob"),
)


def install(site: AdminSite) -> None:
    """Let the site list our pages in this order. Other apps stay as the site lists them."""
    listed = site.get_app_list

    def get_app_list(request: HttpRequest, app_label: str | None = None) -> list[Any]:
        if live.shown(request):
            return []  # a refresh has no menu
        found = listed(request, app_label)
        for app in found:
            if app["app_label"] == APP:
                _arrange(site, app)
        return found

    site.get_app_list = get_app_list  # type: ignore[method-assign] # a site has no other place for an order


def has_spark() -> bool:
    """Return whether Spark is installed here. Where it is not, its pages are not in the menu."""
    try:
        return find_spec("pyspark") is not None
    except ImportError:
        return False


def _arrange(site: AdminSite, app: dict[str, Any]) -> None:
    by_name = {model["object_name"]: model for model in app["models"]}
    messages, queues, sessions = (by_name.get(name, {}) for name in ("Message", "Queue", "WorkerSession"))
    if messages.get("admin_url"):
        address = f"{messages['admin_url']}?state={DEAD_LETTERS}"
        by_name[DEAD_LETTERS] = _entry(messages, "DeadLetters", _("Dead letters"), address)
    if sessions.get("admin_url"):
        address = f"{sessions['admin_url']}running/"
        by_name[RUNNING] = _entry(sessions, "Running", _("Running now"), address)
    key = tenant_key()
    if key is not None and queues.get("admin_url") and messages.get("admin_url"):
        by_name[TENANTS] = _entry(queues, TENANTS, title_of(key), f"{queues['admin_url']}tenants/")
    app["models"] = [by_name[name] for name in ORDER if name in by_name]
    if queues.get("admin_url"):
        address = app["app_url"] = reverse(f"{site.name}:{APP}_queue_overview")
        app["models"].insert(0, _entry(queues, "Overview", _("Overview"), address))


def _entry(model: dict[str, Any], object_name: str, name: str, address: str) -> dict[str, Any]:
    """Return an entry of the menu for another page of a model."""
    texts = {"object_name": object_name, "name": name, "admin_url": address}
    return {**model, **texts, "add_url": None, "view_only": True}
