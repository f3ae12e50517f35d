"""The index page, the admin, metrics for Prometheus, and a health page."""

from django.contrib import admin
from django.urls import path
from django_mq.integrations.health import health_page
from django_mq.integrations.prometheus.view import metrics

from library.views import index

urlpatterns = [
    path("", index, name="index"),
    path("admin/", admin.site.urls),
    path("metrics/queues", metrics),
    path("healthz", health_page()),
]
