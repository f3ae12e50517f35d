"""Django in a process that Spark has started: an executor's Python, or a planner's."""

from __future__ import annotations

import os

from django_mq.errors import PipelineError


def set_up() -> None:
    """Set Django up once per process. Raises PipelineError when nobody said which project it is."""
    import django
    from django.apps import apps

    if apps.ready:
        return
    if not os.environ.get("DJANGO_SETTINGS_MODULE"):
        raise PipelineError(
            "The executors do not know the Django project: set spark.executorEnv.DJANGO_SETTINGS_MODULE."
        )
    django.setup()


def check_alias(alias: str | None) -> str:
    """Return the database alias of the queues, or the one given. Raises PipelineError if there is none such."""
    from django.db import connections

    from django_mq import conf

    chosen = alias or conf.load().DATABASE
    if chosen not in connections:
        raise PipelineError(f"There is no database {chosen!r}; DATABASES has {', '.join(connections)}.")
    return chosen
