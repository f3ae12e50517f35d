"""What an extension adds to django_mq, as one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What one package adds. ``DJANGO_MQ["EXTENSIONS"]`` names such values by their dotted paths.

    Every field but the name is a tuple, and empty by default. The parts of django_mq that read a field run the
    values of all extensions, in the order of the setting.
    """

    #: Says in errors which extension is meant. No two extensions have the same name.
    name: str
