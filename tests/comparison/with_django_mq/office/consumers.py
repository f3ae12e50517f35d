"""What the office does in the background."""

from django.conf import settings

from django_mq.api import Cancelled, ReceivedMessage, consumer
from office.models import Export, Invoice
from tests.comparison import outside


def give_up(message: ReceivedMessage) -> None:
    """Tell the clerks that a letter will not arrive."""
    Invoice.objects.filter(pk=message.body).update(state="failed")


@consumer(
    "letters",
    max_attempts=3,
    backoff="exponential",
    backoff_seconds=settings.PAUSE_SECONDS,
    retry_on=ConnectionError,
    release_on=outside.PostIsClosed,
    release_seconds=settings.PAUSE_SECONDS,
    on_dead=give_up,
)
def send_invoice(pk: int) -> None:
    """Send an invoice."""
    outside.send_letter(Invoice.objects.get(pk=pk).address)
    Invoice.objects.filter(pk=pk).update(state="sent")


@consumer("reminders")
def send_reminder(pk: int) -> None:
    """Remind of an invoice."""
    outside.send_letter(Invoice.objects.get(pk=pk).address)
    Invoice.objects.filter(pk=pk).update(state="reminded")


@consumer("bookings")
def book_payment(pk: int) -> None:
    """Book the payment of an invoice; the bank takes one at a time of each account."""
    outside.book(Invoice.objects.get(pk=pk).account, pk)
    Invoice.objects.filter(pk=pk).update(state="paid")


@consumer("exports")
def write_export(pk: int, message: ReceivedMessage) -> None:
    """Write the pages that are not there yet."""
    export = Export.objects.get(pk=pk)
    try:
        for page in range(export.done + 1, export.pages + 1):
            message.raise_if_cancelled()
            outside.write_page(pk, page)
            Export.objects.filter(pk=pk).update(done=page)
    except Cancelled:
        outside.discard(pk)
        raise
    Export.objects.filter(pk=pk).update(state="done")
