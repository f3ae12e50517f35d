"""A page that says whether the queues are well, for load balancers and Kubernetes.

    path("healthz", django_mq.integrations.health.health_page(oldest_seconds=300))

Protect the page as your site requires. What a database says of itself, such as its address, is in the log and not
on the page.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.http import JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from django_mq import conf
from django_mq.diagnosis.state.health import Demands, Probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponseBase

logger = logging.getLogger("django_mq.health")

UNREADABLE = "The queues' database cannot be read; the log says why."


def health_page(
    *queues: str,
    oldest_seconds: float | None = None,
    dead: int | None = None,
    workers: bool = False,
    timeout_seconds: float = 3.0,
    keep_seconds: float = 1.0,
    using: str | None = None,
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Return a view that answers 200 if all is well, else 503, with the alerts as JSON.

    It checks what ``mq_health`` checks: that the database answers and has the tables, and of these queues, or of
    all, that no ready message has waited for more than ``oldest_seconds``, that none has more than ``dead`` dead
    letters, and with ``workers`` that each has a live worker. The view answers after ``timeout_seconds`` at the
    latest. An answer is kept for ``keep_seconds``: many requests are one question to the database.
    """
    demands = Demands(queues=queues, oldest_seconds=oldest_seconds, dead=dead, workers=workers)
    probe = Probe(demands, keep_seconds=keep_seconds)

    @never_cache
    @require_safe
    def page(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - every view has one
        health = probe.answer(using=using or conf.load().DATABASE, timeout_seconds=timeout_seconds)
        if health.error is not None:
            logger.warning("The queues are not well: %s", health.error)
        alerts = health.alerts if health.error is None else [UNREADABLE]
        return JsonResponse({"well": health.well, "alerts": alerts}, status=200 if health.well else 503)

    return page
