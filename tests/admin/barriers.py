"""What keeps people with other eyes, ears or hands from a page, as axe-core finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: What the pages say themselves, and not what the admin puts round it or lends them as it is: its search, its
#: paging, its inlines, and the links of django-unfold.
CONTEXT: dict[str, Any] = {
    "include": [["#content"]],
    "exclude": [["#changelist-search"], [".paginator"], [".inline-group"], [".text-link"], [".showall"]],
}
#: django-unfold has no landmarks; both put the page's content where they do.
OPTIONS: dict[str, Any] = {"resultTypes": ["violations"], "rules": {"region": {"enabled": False}}}


def barriers(page: Page) -> list[str]:
    """Return what is found on the page as it stands, a line each."""
    page.wait_for_load_state("load")
    found = Axe().run(page, context=CONTEXT, options=OPTIONS).response["violations"]
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]
