"""Keeps every table of django_mq on the alias named by ``DJANGO_MQ["DATABASE"]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq import conf

if TYPE_CHECKING:
    from django.db.models import Model


class MQRouter:
    """Put ``django_mq.routers.MQRouter`` into ``DATABASE_ROUTERS`` when the queues live on another alias."""

    app_label = "django_mq"

    def db_for_read(self, model: type[Model], **_: Any) -> str | None:
        return conf.load().DATABASE if model._meta.app_label == self.app_label else None

    def db_for_write(self, model: type[Model], **_: Any) -> str | None:
        return self.db_for_read(model)

    def allow_migrate(self, db: str, app_label: str, **_: Any) -> bool | None:
        if app_label != self.app_label:
            return None
        return db == conf.load().DATABASE
