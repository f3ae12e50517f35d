"""The services outside of the office, as another process sees them: each call is a line in a diary.

A call may wait at a gate, which a test opens. What is before the @ of an address says how the post answers.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.waiting import wait_until


class PostIsClosed(Exception):  # noqa: N818 - it is no error: the post asks to come later
    """The post takes nothing at the moment."""


class UnknownAddress(Exception):  # noqa: N818 - as above
    """No letter will ever arrive there."""


def send_letter(address: str) -> None:
    """Send a letter."""
    write(f"letter {address}")
    calls = diary().count(f"letter {address}")
    match address.partition("@")[0]:
        case "unknown":
            raise UnknownAddress(address)
        case "never":
            raise ConnectionError("The post does not answer.")
        case "third" if calls < 3:
            raise ConnectionError("The post does not answer.")
        case "closed" if calls < 5:
            raise PostIsClosed


def book(account: str, invoice: int) -> None:
    """Book the payment of an invoice."""
    write(f"begin {account} {invoice}")
    wait_at(f"book {invoice}")
    write(f"end {account} {invoice}")


def write_page(export: int, page: int) -> None:
    """Write a page of the file of an export; the first two pages wait for a gate."""
    if page <= 2:
        wait_at(f"export {export} page {page}")


def discard(export: int) -> None:
    """Remove the file of an export."""
    write(f"export {export} discarded")


def directory() -> Path:
    """Where the diary and the gates are."""
    return Path(os.environ["OFFICE_DIRECTORY"])


def diary() -> list[str]:
    """Return the calls until now."""
    path = directory() / "diary"
    return path.read_text().splitlines() if path.exists() else []


def write(line: str) -> None:
    """Note a call."""
    with (directory() / "diary").open("a") as file:
        file.write(f"{line}\n")


def open_gate(name: str) -> None:
    """Let those go on that wait there."""
    (directory() / name).touch()


def wait_at(name: str) -> None:
    """Wait until the gate is open."""
    wait_until((directory() / name).exists, f"the gate {name!r}")
