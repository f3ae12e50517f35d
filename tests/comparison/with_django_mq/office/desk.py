"""What a clerk can do; the views call it."""

from datetime import datetime

from django.db import transaction

from django_mq.api import cancel, reschedule
from office.consumers import book_payment, send_invoice, send_reminder, write_export
from office.models import Export, Invoice


@transaction.atomic
def create_invoice(address: str, account: str = "") -> Invoice:
    """Write an invoice and send it."""
    invoice = Invoice.objects.create(address=address, account=account)
    send_invoice.publish(invoice.pk)
    return invoice


@transaction.atomic
def plan_reminder(invoice: Invoice, at: datetime) -> None:
    """Remind of an invoice at a time."""
    invoice.reminder = send_reminder.publish(invoice.pk, deliver_at=at)
    invoice.save(update_fields=["reminder"])


def move_reminder(invoice: Invoice, at: datetime) -> None:
    """Remind at another time."""
    reschedule(invoice.reminder, deliver_at=at)


def drop_reminder(invoice: Invoice) -> None:
    """Do not remind of an invoice."""
    cancel(invoice.reminder)


def pay(invoice: Invoice) -> None:
    """Book the payment of an invoice."""
    book_payment.publish(invoice.pk, group_key=invoice.account)


@transaction.atomic
def begin_export(pages: int) -> Export:
    """Write a file of so many pages."""
    export = Export.objects.create(pages=pages)
    export.message = write_export.publish(export.pk)
    export.save(update_fields=["message"])
    return export


@transaction.atomic
def stop_export(export: Export) -> None:
    """Stop an export, whether it waits or runs."""
    cancel(export.message, running=True)
    Export.objects.filter(pk=export.pk).exclude(state="done").update(state="stopped")
