"""Messages made to break a page, in a real browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Permission, User
from playwright.sync_api import expect

from django_mq.models import Message
from tests.admin.browser import browsing, log_in, note_complaints, picture
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.db.models import Model
    from playwright.sync_api import Page
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

DEAD = Message.Status.DEAD
MEGABYTES = 5 * 2**20
#: Each of these would rename the page.
SCRIPTS = (
    "<script>document.title = 'broken in'</script>",
    "</pre></textarea></script><img src=x onerror=\"document.title = 'broken in'\">",
    "javascript:document.title = 'broken in'//",
    "{{ request.user }}{% include 'x' %}\u202e\u0000\ud800",
)
LINE = json.dumps(SCRIPTS[0] + SCRIPTS[1]).encode()
BODIES: dict[str, tuple[bytes, str]] = {
    "scripts": (json.dumps(SCRIPTS).encode(), "application/json"),
    "5 MB of JSON": (b"[" + b",".join([LINE] * (MEGABYTES // len(LINE))) + b"]", "application/json"),
    "5 MB of one word": (b'"' + b"<b>" * (MEGABYTES // 3) + b'"', "application/json"),
    "5 MB of bytes": (b"\xff\xfe<script>" * (MEGABYTES // 10), "application/octet-stream"),
    "no UTF-8": (b"caf\xe9 \xff\xc0\x80 <script>document.title = 'broken in'</script>", "text/plain"),
    "no UTF-8 as JSON": (b'{"name": "caf\xe9\xff"}', "application/json"),
    "JSON too deep": (b"[" * 100_000 + b"]" * 100_000, "application/json"),
    "JSON rather deep": (b'{"a":' * 400 + b"1" + b"}" * 400, "application/json"),
}
#: Characters that a page may have; a browser gets slow with more.
MOST_CHARACTERS = 400_000


def hostile(make: Make, name: str) -> list[Model]:
    """Write such a message, what is left of another one, and an attempt of it."""
    body, content_type = BODIES[name]
    title = SCRIPTS[1][:200]
    headers = {SCRIPTS[0]: SCRIPTS[1], "deep": json.loads("[" * 100 + "]" * 100)}
    dead = make.message(
        DEAD, body=body, content_type=content_type, headers=headers, type=title, dead_reason=title, group_key=title
    )
    past = make.history(body=body, type=title, outcome=4, headers=headers)
    return [dead, past, make.attempt(message_id=dead.message_id, error=title, traceback=SCRIPTS[1] * 5_000)]


@pytest.mark.once
@pytest.mark.django_db(transaction=True)
def test_no_body_runs_anything_or_makes_a_page_unusable(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    make.queue("orders")
    rows = {name: hostile(make, name) for name in BODIES}
    complaints: list[str] = []

    with browsing(live_server.url) as page:
        log_in(page)
        note_complaints(page, complaints)
        look(page, page_of(rows["scripts"][2]))
        for name, (dead, past, _) in rows.items():
            look(page, page_of(past))
            look(page, page_of(dead))
            picture(page, f"hostile {name}")
            look(page, f"{list_of('message')}add/?copy={dead.pk}")
            retry(page, dead)
        for address in (list_of("message"), list_of("history"), list_of("attempt")):
            look(page, address)
        for term in ("a=1", "deep:1", "name=caf", SCRIPTS[1]):
            look(page, list_of("message"))
            page.locator("#searchbar").fill(term)
            page.locator("#searchbar").press("Enter")
            expect(page.locator("#searchbar")).to_have_value(term)
            expect(page).not_to_have_title("broken in")

    assert complaints == []
    assert set(Message.objects.values_list("state", flat=True)) == {Message.Status.READY}


def look(page: Page, address: str) -> None:
    """Go there, and see a page of the admin that has run nothing and has a bearable size."""
    answer = page.goto(address)
    assert answer is not None
    assert answer.status == 200, address
    assert len(answer.text()) < MOST_CHARACTERS, address
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    expect(page).not_to_have_title("broken in")
    assert page.locator("#content script:not([src]), #content img[src='x']").count() == 0, address


def retry(page: Page, message: Model) -> None:
    """Do what the page is for."""
    page.goto(page_of(message))
    page.get_by_role("button", name="Redrive").click()
    expect(page.get_by_text("Redriven: 1 of 1 message.")).to_be_visible()


#: A reader may take home what is to be seen.
NO_DOWNLOAD = ":not([value^=download])"


@pytest.mark.once
@pytest.mark.django_db(transaction=True)
def test_a_reader_sees_everything_and_can_do_nothing(live_server: LiveServer, make: Make) -> None:
    dead = make.message(DEAD, body=b'{"order": 7}')
    session = make.session()
    reader = User.objects.create_user("operator", password="operator", is_staff=True)
    reader.user_permissions.set(
        Permission.objects.filter(content_type__app_label="django_mq", codename__startswith="view_")
    )
    forced = {"message": ("cancel", dead), "queue": ("purge", dead.queue), "workersession": ("stop", session)}

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(f"{list_of('queue')}overview/")
        expect(page.get_by_role("link", name="orders").first).to_be_visible()
        for model, (name, row) in forced.items():
            page.goto(list_of(model))
            expect(page.locator(f"select[name=action] option:not([value='']){NO_DOWNLOAD}")).to_have_count(0)
            expect(page.locator(".addlink")).to_have_count(0)
            page.goto(page_of(row))
            expect(page.locator(f"form.mq-buttons button{NO_DOWNLOAD}")).to_have_count(0)
            picture(page, f"reader {model}")
            assert post(page, list_of(model), {"action": name, "_selected_action": row.pk}) == 200
        page.goto(page_of(dead))
        expect(page.get_by_text('"order": 7')).to_be_visible()
        assert post(page, f"{list_of('message')}add/", {"queue": "orders", "kind": "json", "body": "1"}) == 403

    assert list(Message.objects.values_list("pk", "state")) == [(dead.pk, DEAD)]
    session.refresh_from_db()
    assert session.conduct == "work"


def post(page: Page, address: str, values: dict[str, object]) -> int:
    """Send what a button would send, with the page's own cookie; return the answer's status."""
    token = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "csrftoken")
    given = {name: str(value) for name, value in values.items()}
    form: dict[str, str | float | bool] = {
        "csrfmiddlewaretoken": token,
        "confirmed": "yes",
        "typed": "purge",
        **given,
    }
    return page.request.post(address, form=form, headers={"Referer": page.url}).status
