"""A headless browser for tests, which can also leave screenshots."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect, sync_playwright

from tests.conftest import skip_or_fail
from tests.services.server import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import ConsoleMessage, Dialog, Page

#: Browsers looked for on PATH, Debian's first.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: As root, as in a container, Chromium runs only without its sandbox.
ARGUMENTS = ["--no-sandbox"] if os.geteuid() == 0 else []
#: Longest wait for anything on a page; a slow machine must not fail a test.
PATIENCE_MILLISECONDS = 120_000
#: What counts up by itself in a page has gone on by the time that a slow machine looks.
ANY_NUMBER = re.compile(r"\d+")
#: Names a folder for screenshots; without it none are made.
FOLDER_VARIABLE = "SCREENSHOTS"


@contextmanager
def browsing(base_url: str, *, dark: bool = False) -> Iterator[Page]:
    """A page of a headless browser. The ORM must not be used meanwhile: Playwright runs an event loop here."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        skip_or_fail(UnavailableError("There is no Chromium on PATH; Debian's package is called chromium."))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, timeout=PATIENCE_MILLISECONDS)
        scheme = "dark" if dark else "light"
        page = browser.new_page(base_url=base_url, viewport={"width": 1440, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        expect.set_options(timeout=PATIENCE_MILLISECONDS)
        try:
            yield page
        finally:
            browser.close()


def log_in(page: Page) -> None:
    """Log in as the fixture ``operator``."""
    page.goto("/admin/")
    page.get_by_label("Username").fill("operator")
    page.get_by_label("Password").fill("operator")
    page.get_by_role("button", name="Log in").click()
    # Leaving before the answer has come would leave the cookie behind.
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


def enter(page: Page) -> None:
    """Log in as the fixture ``operator``, in any language."""
    page.goto("/admin/login/")
    page.locator("#id_username").fill("operator")
    page.locator("#id_password").fill("operator")
    page.locator("#login-form [type=submit]").click()
    page.locator("#logout-form").wait_for()


def picture(page: Page, name: str) -> None:
    """Leave a screenshot of the whole page, if they are asked for."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        page.wait_for_load_state("load")
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def note_complaints(page: Page, complaints: list[str]) -> None:
    """Write down what runs on its own or fails on a page; that the site has no icon is no failure."""

    def said(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.location["url"].endswith("/favicon.ico"):
            complaints.append(message.text)

    def asked(dialog: Dialog) -> None:
        complaints.append(dialog.message)
        dialog.dismiss()

    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", asked)
    page.on("console", said)
