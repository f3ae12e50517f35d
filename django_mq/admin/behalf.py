"""On whose behalf an operation goes on when no request is there to ask: it may do what its user may do now."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _

from django_mq.errors import MQError
from django_mq.models import Operation


def user(name: str) -> Any:
    """Return the user of this name, None if there is none any more."""
    model = get_user_model()
    users = model._default_manager  # noqa: SLF001 - whatever a project calls it
    return users.filter(**{model.USERNAME_FIELD: name}).first()


def check(name: str, permission: str) -> None:
    """Raise MQError unless the user is active and holds one of our permissions: both may be taken meanwhile."""
    found = user(name)
    if found is None or not found.is_active or not found.has_perm(f"{Operation._meta.app_label}.{permission}"):
        raise MQError(_("“%(user)s” may not do this any more.") % {"user": name})
