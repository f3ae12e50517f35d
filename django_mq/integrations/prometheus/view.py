"""The page that Prometheus scrapes.

    path("metrics/queues", django_mq.integrations.prometheus.view.metrics)

Protect the page as your site requires, in the network or with a decorator.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from django.http import HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from django_mq.integrations.prometheus.collector import QueueCollector

if TYPE_CHECKING:
    from django.http import HttpRequest


@lru_cache(maxsize=1)
def _registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(QueueCollector())
    return registry


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the figures in the format that the scraper asks for.

    The answer is 200 even if the database cannot be read: then ``django_mq_up`` is 0.
    """
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(_registry()), content_type=content_type)
