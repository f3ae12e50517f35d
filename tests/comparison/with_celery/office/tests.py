"""The tests of the office."""

from datetime import timedelta
from unittest.mock import patch

from celery.exceptions import Retry
from django.test import TestCase
from django.utils import timezone

from office import desk, tasks
from office.celery import app
from office.models import Export, Invoice
from tests.comparison import outside

app.conf.task_always_eager = True


class Eager(TestCase):
    """A task runs where it is published, when the transaction of the test would commit."""

    def at_commit(self):
        """Run the tasks that the block publishes."""
        return self.captureOnCommitCallbacks(execute=True)


@patch.object(outside, "send_letter")
class Letters(Eager):
    """Invoices and reminders."""

    def test_an_invoice_is_sent(self, send_letter):
        with self.at_commit():
            invoice = desk.create_invoice("ann@example.org")
        invoice.refresh_from_db()
        assert invoice.state == "sent"

    def test_a_letter_is_tried_three_times(self, send_letter):
        send_letter.side_effect = ConnectionError
        with self.at_commit():
            desk.create_invoice("ann@example.org")
        assert send_letter.call_count == 3

    def test_the_clerks_hear_of_a_letter_that_failed(self, send_letter):
        send_letter.side_effect = outside.UnknownAddress
        with self.at_commit():
            invoice = desk.create_invoice("ann@example.org")
        invoice.refresh_from_db()
        assert invoice.state == "failed"

    def test_a_closed_post_is_asked_again(self, send_letter):
        send_letter.side_effect = [outside.PostIsClosed, None]
        with self.at_commit():
            invoice = desk.create_invoice("ann@example.org")
        invoice.refresh_from_db()
        assert invoice.state == "sent"

    def test_a_reminder_moves(self, send_letter):
        invoice, at = Invoice.objects.create(), timezone.now() + timedelta(days=1)
        with patch.object(tasks.send_reminder, "apply_async") as publish:
            for days in (0, 1):
                with self.at_commit():
                    desk.plan_reminder(invoice, at + timedelta(days=days))
        first, second = (call.kwargs for call in publish.call_args_list)
        assert second["eta"] - first["eta"] == timedelta(days=1)
        tasks.send_reminder.apply((invoice.pk,), task_id=first["task_id"])
        send_letter.assert_not_called()
        tasks.send_reminder.apply((invoice.pk,), task_id=second["task_id"])
        send_letter.assert_called_once()


class Rest(Eager):
    """Payments and exports."""

    @patch.object(tasks, "redis")
    @patch.object(outside, "book")
    def test_a_payment_is_booked(self, book, redis):
        invoice = Invoice.objects.create(account="A")
        with self.at_commit():
            desk.pay(invoice)
        book.assert_called_once_with("A", invoice.pk)

    @patch.object(tasks, "redis")
    @patch.object(outside, "book")
    def test_a_payment_waits_for_its_account(self, book, redis):
        redis.Redis.from_url().lock().acquire.return_value = False
        with patch.object(tasks.book_payment, "retry", side_effect=Retry), self.at_commit():
            desk.pay(Invoice.objects.create(account="A"))
        book.assert_not_called()

    @patch.object(outside, "write_page")
    def test_an_export_has_all_pages(self, write_page):
        with self.at_commit():
            export = desk.begin_export(pages=3)
        export.refresh_from_db()
        assert (export.done, export.state) == (3, "done")

    @patch.object(outside, "write_page")
    def test_a_stopped_export_writes_nothing(self, write_page):
        with self.at_commit():
            desk.stop_export(desk.begin_export(pages=3))
        write_page.assert_not_called()

    @patch.object(outside, "discard")
    @patch.object(outside, "write_page")
    def test_an_export_that_runs_is_stopped(self, write_page, discard):
        write_page.side_effect = lambda pk, page: desk.stop_export(Export.objects.get())
        with self.at_commit():
            desk.begin_export(pages=3)
        write_page.assert_called_once()
        discard.assert_called_once()
