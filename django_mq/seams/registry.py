"""Imports the extensions that the settings name."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.utils.module_loading import import_string

from django_mq.engine.names import WHAT_A_NAME_IS, is_name
from django_mq.errors import UnusableExtension, shown
from django_mq.seams.extension import Extension


def imported(paths: Any) -> tuple[Extension, ...]:
    """Return the extensions with these dotted paths. Raises UnusableExtension."""
    if not isinstance(paths, (list, tuple)):
        raise UnusableExtension(f"EXTENSIONS is {shown(paths)}; give a list of dotted paths.")
    found = tuple(map(_imported, paths))
    for name, number in Counter(extension.name for extension in found).items():
        if number > 1:
            raise UnusableExtension(
                f"EXTENSIONS has {number} extensions with the name {name!r}; rename or remove one."
            )
    return found


def _imported(path: Any) -> Extension:
    if not isinstance(path, str):
        raise UnusableExtension(f"EXTENSIONS has {shown(path)}; give the dotted path of an Extension.")
    try:
        found = import_string(path)
    except Exception as error:
        # A module of the project may raise anything.
        raise UnusableExtension(f"EXTENSIONS has {path!r}, which cannot be imported: {error}") from error
    if not isinstance(found, Extension):
        raise UnusableExtension(f"EXTENSIONS has {path!r}, which is no Extension, but {shown(found)}.")
    if not is_name(found.name):
        raise UnusableExtension(f"EXTENSIONS has {path!r}, whose name is {shown(found.name)}: {WHAT_A_NAME_IS}.")
    return found
