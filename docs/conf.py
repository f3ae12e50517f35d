"""Sphinx: ``sphinx-build -W -q docs docs/_build/html``. With -W, a broken link is an error."""

from __future__ import annotations

import re
from pathlib import Path

_source = (Path(__file__).parents[1] / "django_mq" / "__init__.py").read_text(encoding="utf-8")
_version = re.search(r'__version__ = "(.+)"', _source)

project = "django_mq"
author = "The django_mq contributors"
copyright = f"2026, {author}"  # noqa: A001 - Sphinx's name for it
release = _version[1] if _version else ""

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
nitpicky = True

myst_heading_anchors = 3

html_theme = "furo"
html_title = f"django_mq {release}"
