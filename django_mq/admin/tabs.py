"""The tabs of a queue: its page, its charts, and the lists of its messages, consumers and past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from django.contrib.admin.views.main import PAGE_VAR
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_mq import conf
from django_mq.diagnosis.messages.indexes import DEAD_LETTERS, RETRYING
from django_mq.diagnosis.messages.slices import BEFORE
from django_mq.engine.options import is_name
from django_mq.models import Attempt, Consumer, History, Message, Queue
from django_mq.tenants.declared import has_key, tenant_key, title_of

if TYPE_CHECKING:
    from django.db.models import Model
    from django.http import HttpRequest


#: URL parameters that do not change what a page is about.
WHERE = {PAGE_VAR, BEFORE, "span", "by"}


class Page(Protocol):
    """What the tabs use of an admin page."""

    def list_address(self, model: type[Model], **filters: Any) -> str:
        """Return the URL of the list of a model."""

    def page_address(self, model: type[Model], row_id: int | None) -> str:
        """Return the URL of the page of a row."""

    def may(self, request: HttpRequest, codename: str) -> bool:
        """Whether the user has a permission."""


class Tab(NamedTuple):
    label: str
    address: str
    is_current: bool


def queue_in(request: HttpRequest) -> Queue | None:
    """Return the queue that the URL names, None if there is no such queue."""
    name = request.GET.get("queue", "")
    return Queue.objects.using(conf.load().DATABASE).filter(name=name).first() if is_name(name) else None


def tabs_of(page: Page, request: HttpRequest, queue: Queue | None) -> list[Tab]:
    """Return the pages about a queue that the user may view."""
    if queue is None:
        return []
    filters = {"queue": queue.name}
    charts = f"{page.list_address(Queue)}charts/"
    pages: list[tuple[str, str, type[Model], dict[str, str] | None]] = [
        (_("Now and settings"), page.page_address(Queue, queue.pk), Queue, None),
        (_("Charts"), charts, Queue, filters),
        (_("Messages"), page.list_address(Message), Message, filters),
        (_("Retrying"), page.list_address(Message), Message, filters | {"state": RETRYING}),
        (_("Dead letters"), page.list_address(Message), Message, filters | {"state": DEAD_LETTERS}),
        (_("Consumers"), page.list_address(Consumer), Consumer, filters),
        (_("Finished"), page.list_address(History), History, filters),
        (_("Failed attempts"), page.list_address(Attempt), Attempt, filters),
    ]
    key = tenant_key()
    if key is not None and has_key(queue, key) and page.may(request, "view_message"):
        pages.append((title_of(key), f"{page.list_address(Queue)}tenants/", Queue, filters))
    shown = {name: value for name, value in request.GET.items() if name not in WHERE}
    return [
        Tab(
            label,
            f"{path}?{urlencode(wanted)}" if wanted else path,
            request.path == path and (wanted is None or wanted == shown),
        )
        for label, path, model, wanted in pages
        if page.may(request, f"view_{model._meta.model_name}")
    ]
