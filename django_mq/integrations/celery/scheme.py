"""Loaded by the Celery command line through the ``celery.commands`` entry points.

``celery inspect``, ``purge`` and ``status`` never call ``django.setup()``, so the app's
``ready()`` is not run there; the command line loads this group before it opens the broker.
"""

from __future__ import annotations

import click

from django_mq.integrations.celery.url import register

register()


@click.group(name="mq", help="Queues of django_mq; see also manage.py mq_queues, mq_browse and mq_doctor.")
def mq() -> None:
    """Commands of django_mq on the Celery command line."""
