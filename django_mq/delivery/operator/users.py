"""The user of what goes on in the background."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _

from django_mq.errors import MQError


def user_named(name: str) -> Any:
    """Return the user of the site with this name, or None."""
    model = get_user_model()
    users = model._default_manager  # noqa: SLF001 - a project may rename it
    return users.filter(**{model.USERNAME_FIELD: name}).first()


def check_user(name: str, permission: str) -> None:
    """Raise MQError unless the user is still active and has the permission of django_mq with this codename."""
    found = user_named(name)
    if found is None or not found.is_active or not found.has_perm(f"django_mq.{permission}"):
        raise MQError(_("“%(user)s” may not do this any more.") % {"user": name})
