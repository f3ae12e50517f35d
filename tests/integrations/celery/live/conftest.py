"""Sites of their own for live workers."""

from __future__ import annotations

from tests.journeys.conftest import site, sites, templates

__all__ = ["site", "sites", "templates"]
