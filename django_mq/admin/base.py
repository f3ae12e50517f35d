"""Which admin the pages are built on: django-unfold's where a project has it, else Django's own."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin

#: Its styles come with its own classes only.
UNFOLD = "unfold"


def base_of(name: str) -> Any:
    """Return the class of this name that the project's admin is made of."""
    if not apps.is_installed(UNFOLD):
        return getattr(admin, name)
    from unfold import admin as unfold  # type: ignore[import-untyped,import-not-found,unused-ignore] # noqa: PLC0415 - where a project has it

    return getattr(unfold, name)
