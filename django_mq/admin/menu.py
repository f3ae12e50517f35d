"""The app in the menu of a site: its pages in groups, in the order of use, the overview first."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

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
#: The groups of the menu with their models, in the order of use; the first has the name of the app. DEAD_LETTERS
#: stands for the messages that are dead letters.
GROUPS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (
        None,
        (
            *("Message", DEAD_LETTERS, "Queue", RUNNING, "WorkerSession", "Consumer"),
            *("BridgeLink", "ReceiverState", TENANTS),
        ),
    ),
    (
        gettext_lazy("What has happened"),
        ("History", "FailureGroup", "Attempt", "Operation", "Act", "RecordedAlert"),
    ),
    (
        gettext_lazy("Results and work in steps"),
        ("TaskResult", "StoredResult", "Chord", "ResultGroup", "MessageBatch", "WorkflowRun", "DurableEvent"),
    ),
    (
        gettext_lazy("Schedules and rules"),
        ("PeriodicMessage", "UniqueKey", "LimitException", "Binding", "StagedRedrive", "SnoozedAlert"),
    ),
    (
        "Spark",
        ("InsightHour", "ArchiveBatch", "BulkJob"),
    ),
)


def install(site: AdminSite) -> None:
    """Let the site list our pages in these groups. Other apps stay as the site lists them."""
    listed = site.get_app_list

    def get_app_list(request: HttpRequest, app_label: str | None = None) -> list[Any]:
        if live.shown(request):
            return []  # a refresh has no menu
        found = listed(request, app_label)
        return [group for app in found for group in (_groups(site, app) if app["app_label"] == APP else [app])]

    site.get_app_list = get_app_list  # type: ignore[method-assign] # a site has no other place for an order


def has_spark() -> bool:
    """Return whether Spark is installed here. Where it is not, its pages are not in the menu."""
    try:
        return find_spec("pyspark") is not None
    except ImportError:
        return False


def _groups(site: AdminSite, app: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the groups of the app that have entries for this user, each as the site lists an app."""
    by_name = {model["object_name"]: model for model in app["models"]}
    others = ("Message", "Queue", "WorkerSession", "BridgeLink")
    messages, queues, sessions, links = (by_name.get(name, {}) for name in others)
    if messages.get("admin_url"):
        address = f"{messages['admin_url']}?state={DEAD_LETTERS}"
        by_name[DEAD_LETTERS] = _entry(messages, "DeadLetters", _("Dead letters"), address)
    if sessions.get("admin_url"):
        address = f"{sessions['admin_url']}running/"
        by_name[RUNNING] = _entry(sessions, "Running", _("Running now"), address)
    if links.get("admin_url"):
        by_name["BridgeLink"] = _entry(links, "BridgeLink", _("Bridges"), f"{links['admin_url']}bridges/")
    key = tenant_key()
    if key is not None and queues.get("admin_url") and messages.get("admin_url"):
        by_name[TENANTS] = _entry(queues, TENANTS, title_of(key), f"{queues['admin_url']}tenants/")
    groups = []
    for title, names in GROUPS:
        if models := [by_name[name] for name in names if name in by_name]:
            groups.append(
                {**app, "name": title or app["name"], "models": models, "app_url": models[0]["admin_url"]}
            )
    if queues.get("admin_url"):
        address = groups[0]["app_url"] = reverse(f"{site.name}:{APP}_queue_overview")
        groups[0]["models"].insert(0, _entry(queues, "Overview", _("Overview"), address))
    return groups


def _entry(model: dict[str, Any], object_name: str, name: str, address: str) -> dict[str, Any]:
    """Return an entry of the menu for another page of a model."""
    texts = {"object_name": object_name, "name": name, "admin_url": address}
    return {**model, **texts, "add_url": None, "view_only": True}
