"""The handlers that this app brings, found as those of any other app: the tasks of Django's own interface."""

from __future__ import annotations

from django_mq.integrations.tasks.serving import serve_all

serve_all()
