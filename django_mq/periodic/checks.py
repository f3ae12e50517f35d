"""The check of what code declares."""

from __future__ import annotations

from typing import Any

from django.core import checks

from django_mq.periodic.decorator import declarations


def register() -> None:
    """Register the check; called once by the app."""
    checks.register(check_declarations, "django_mq_handlers")


def check_declarations(**_: Any) -> list[checks.CheckMessage]:
    """E016: periodic messages that cannot be declared."""
    try:
        found = declarations()
    except Exception:  # noqa: BLE001 - a module of the project may raise anything; the check of handlers says it
        return []
    hint = "Correct what @periodic is given. Until then no worker changes or deletes this periodic message."
    return [
        checks.Error(f"The periodic message {name!r} cannot be declared: {why}", hint=hint, id="django_mq.E016")
        for name, why in found.wrong.items()
    ]
