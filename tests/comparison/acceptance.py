"""What an office does: the one test file of both. It runs in a process of the office, beside its worker."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from django.utils import timezone
from office import desk

from tests.comparison import outside
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import DjangoDbBlocker

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def database(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The database of the office: its worker sees what is committed there."""
    with django_db_blocker.unblock():
        yield


def wait_for(row: Any, **fields: Any) -> None:
    """Return when the row has these values."""

    def has_them() -> bool:
        row.refresh_from_db()
        return all(getattr(row, name) == value for name, value in fields.items())

    wait_until(has_them, lambda: f"{fields} of {vars(row)}: {outside.diary()}")


def letters_to(address: str) -> int:
    return outside.diary().count(f"letter {address}")


@pytest.mark.parametrize(
    ("address", "state", "letters"),
    [
        pytest.param("third@example.org", "sent", 3, id="until it succeeds"),
        pytest.param("never@example.org", "failed", 3, id="three times at most"),
        pytest.param("unknown@example.org", "failed", 1, id="not where this is of no use"),
        pytest.param("closed@example.org", "sent", 5, id="uncounted while the post is closed"),
    ],
)
def test_a_letter_is_tried_again(address: str, state: str, letters: int) -> None:
    invoice = desk.create_invoice(address)

    wait_for(invoice, state=state)

    assert letters_to(address) == letters


def test_no_letter_is_sent_for_an_invoice_that_is_rolled_back() -> None:
    with transaction.atomic():
        desk.create_invoice("undone@example.org")
        transaction.set_rollback(True)

    wait_for(desk.create_invoice("kept@example.org"), state="sent")
    assert letters_to("undone@example.org") == 0


def test_a_reminder_comes_at_the_time_to_which_it_was_moved() -> None:
    sooner, later, dropped = (
        desk.create_invoice(f"{name}@example.org") for name in ("sooner", "later", "dropped")
    )
    for invoice in (sooner, later, dropped):
        wait_for(invoice, state="sent")

    desk.plan_reminder(sooner, timezone.now() + HOUR)
    with transaction.atomic():
        desk.plan_reminder(later, timezone.now())
        desk.move_reminder(later, timezone.now() + HOUR)
    with transaction.atomic():
        desk.plan_reminder(dropped, timezone.now())
        desk.drop_reminder(dropped)
    desk.move_reminder(sooner, timezone.now())

    wait_for(sooner, state="reminded")
    for invoice in (later, dropped):
        wait_for(invoice, state="sent")
    assert [letters_to(f"{name}@example.org") for name in ("sooner", "later", "dropped")] == [2, 1, 1]


def test_payments_of_one_account_are_booked_one_at_a_time() -> None:
    first, second, other = (desk.create_invoice("payer@example.org", account) for account in ("A", "A", "B"))
    for invoice in (first, second, other):
        wait_for(invoice, state="sent")

    desk.pay(first)
    wait_until(lambda: f"begin A {first.pk}" in outside.diary(), "the first payment")
    outside.open_gate(f"book {second.pk}")
    outside.open_gate(f"book {other.pk}")
    desk.pay(second)
    desk.pay(other)
    wait_for(other, state="paid")
    outside.open_gate(f"book {first.pk}")
    wait_for(second, state="paid")

    of_the_account = [line for line in outside.diary() if " A " in line]
    assert of_the_account == [f"{what} A {each.pk}" for each in (first, second) for what in ("begin", "end")]


def test_an_export_shows_its_progress() -> None:
    export = desk.begin_export(pages=2)

    outside.open_gate(f"export {export.pk} page 1")
    wait_for(export, done=1)
    assert export.state != "done"
    outside.open_gate(f"export {export.pk} page 2")

    wait_for(export, done=2, state="done")


def test_an_export_that_runs_is_stopped() -> None:
    export = desk.begin_export(pages=10_000_000)
    outside.open_gate(f"export {export.pk} page 1")
    wait_for(export, done=1)

    desk.stop_export(export)
    outside.open_gate(f"export {export.pk} page 2")
    wait_until(lambda: f"export {export.pk} discarded" in outside.diary(), "the end of the export")

    wait_for(export, state="stopped")
    assert 2 <= export.done < export.pages


def test_an_export_that_waits_is_stopped() -> None:
    with transaction.atomic():
        export = desk.begin_export(pages=1)
        outside.open_gate(f"export {export.pk} page 1")
        desk.stop_export(export)
    other = desk.begin_export(pages=1)
    outside.open_gate(f"export {other.pk} page 1")

    wait_for(other, state="done")
    wait_for(export, state="stopped", done=0)
