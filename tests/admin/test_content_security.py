"""The pages under a policy that lets a browser run and load nothing but the site's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.models import InsightHour, Message
from tests.admin.browser import browsing, log_in, note_complaints
from tests.admin.conftest import list_of, page_of
from tests.admin.rows import pages
from tests.admin.test_permissions import rows

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from playwright.sync_api import Route
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

__all__ = ["rows"]  # a fixture of theirs

POLICY = "default-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; object-src 'none'"


def strict(route: Route) -> None:
    """Answer as the site does, with the policy of a careful one."""
    answer = route.fetch(max_redirects=0)
    route.fulfill(response=answer, headers={**answer.headers, "content-security-policy": POLICY})


@pytest.mark.once
@pytest.mark.django_db(transaction=True)
def test_no_page_needs_anything_that_a_strict_policy_forbids(
    live_server: LiveServer, operator: User, rows: dict[str, Any], make: Make
) -> None:
    InsightHour.objects.create(queue_name="orders", hour=rows["history"].finished_at, arrivals=3, wait_p95=1.0)
    waiting = make.message(Message.Status.READY)
    overview = f"{list_of('queue')}overview/"
    insights = f"{list_of('insighthour')}?queue=orders&days=28"
    found = [overview, insights, *map(list_of, pages()), *map(page_of, rows.values()), f"{list_of('message')}add/"]
    found += [f"{list_of('message')}{waiting.message_id}/", f"{list_of('message')}search/?q=json"]
    charts = f"{list_of('queue')}charts/?span=day&beside=week"
    found += [charts, f"{charts}&queue=orders"]
    complaints: list[str] = []

    with browsing(live_server.url) as page:
        log_in(page)
        note_complaints(page, complaints)
        page.route("**/*", strict)
        for address in found:
            answer = page.goto(address)
            assert answer is not None
            assert answer.headers["content-security-policy"] == POLICY
        page.goto(page_of(waiting))
        page.get_by_role("button", name="Cancel and remove").click()
        page.get_by_role("button", name="Cancel and remove").wait_for()
        page.goto(overview)
        # The script runs, and renews the figures.
        page.locator("#mq-pause").wait_for()
        assert complaints == []
        # And a page that did need something would be noticed.
        with page.expect_console_message(lambda message: message.type == "error"):
            page.evaluate("document.body.innerHTML += '<p style=\"color: red\">needs a style</p>'")
