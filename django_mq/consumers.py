"""The handlers that this app brings, found as those of any other app: the tasks of Django's own interface."""

from __future__ import annotations

from importlib.util import find_spec

# Every worker imports this, and the interface is neither in Django 5.2 nor among what we require.
if find_spec("django.tasks") or find_spec("django_tasks"):
    from django_mq.integrations.tasks.running import serve_all

    serve_all()
