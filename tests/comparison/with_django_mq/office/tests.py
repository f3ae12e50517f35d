"""The tests of the office."""

from datetime import timedelta
from unittest.mock import patch

from django.test import TestCase

from django_mq.testing import QueueTestMixin
from office import desk
from office.models import Invoice
from tests.comparison import outside


@patch.object(outside, "send_letter")
class Letters(QueueTestMixin, TestCase):
    """Invoices and reminders."""

    def test_an_invoice_is_sent(self, send_letter):
        invoice = desk.create_invoice("ann@example.org")
        self.mq.drain()
        invoice.refresh_from_db()
        assert invoice.state == "sent"

    def test_a_letter_is_tried_three_times(self, send_letter):
        send_letter.side_effect = ConnectionError
        desk.create_invoice("ann@example.org")
        self.mq.drain(ahead=60, raise_errors=False)
        assert send_letter.call_count == 3

    def test_the_clerks_hear_of_a_letter_that_failed(self, send_letter):
        send_letter.side_effect = outside.UnknownAddress
        invoice = desk.create_invoice("ann@example.org")
        self.mq.drain(raise_errors=False)
        invoice.refresh_from_db()
        assert invoice.state == "failed"

    def test_a_closed_post_is_asked_again(self, send_letter):
        send_letter.side_effect = [outside.PostIsClosed, None]
        desk.create_invoice("ann@example.org")
        assert self.mq.drain(ahead=60).outcomes == ["released", "accepted"]

    def test_a_reminder_moves(self, send_letter):
        invoice = Invoice.objects.create()
        desk.plan_reminder(invoice, self.mq.now() + timedelta(days=1))
        desk.move_reminder(invoice, self.mq.now() + timedelta(days=2))
        assert self.mq.drain(ahead=timedelta(days=1.5)).outcomes == []
        assert self.mq.drain(ahead=timedelta(days=1)).outcomes == ["accepted"]


class Rest(QueueTestMixin, TestCase):
    """Payments and exports."""

    @patch.object(outside, "book")
    def test_a_payment_is_booked(self, book):
        invoice = Invoice.objects.create(account="A")
        desk.pay(invoice)
        self.mq.drain()
        book.assert_called_once_with("A", invoice.pk)

    @patch.object(outside, "write_page")
    def test_an_export_has_all_pages(self, write_page):
        export = desk.begin_export(pages=3)
        self.mq.drain()
        export.refresh_from_db()
        assert (export.done, export.state) == (3, "done")

    @patch.object(outside, "write_page")
    def test_a_stopped_export_writes_nothing(self, write_page):
        desk.stop_export(desk.begin_export(pages=3))
        self.mq.drain()
        write_page.assert_not_called()

    @patch.object(outside, "discard")
    @patch.object(outside, "write_page")
    def test_an_export_that_runs_is_stopped(self, write_page, discard):
        export = desk.begin_export(pages=3)
        write_page.side_effect = lambda pk, page: desk.stop_export(export)
        self.mq.drain()
        write_page.assert_called_once()
        discard.assert_called_once()
