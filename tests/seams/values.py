"""Values that tests name in EXTENSIONS."""

from __future__ import annotations

from django_mq.seams.extension import Extension

FIRST = Extension(name="first")
SECOND = Extension(name="second")
SAME = Extension(name="first")
NAMELESS = Extension(name="")
SOMETHING = 3
