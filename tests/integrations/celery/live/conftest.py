"""Sites of their own for live workers."""

from __future__ import annotations

from tests.journeys.conftest import patient_site, site, sites, templates

__all__ = ["patient_site", "site", "sites", "templates"]
