"""What a clerk can do; the views call it."""

from datetime import datetime
from functools import partial
from uuid import uuid4

from django.db import transaction

from office.models import Export, Invoice
from office.tasks import book_payment, send_invoice, send_reminder, write_export


@transaction.atomic
def create_invoice(address: str, account: str = "") -> Invoice:
    """Write an invoice and send it."""
    invoice = Invoice.objects.create(address=address, account=account)
    send_invoice.delay_on_commit(invoice.pk)
    return invoice


@transaction.atomic
def plan_reminder(invoice: Invoice, at: datetime) -> None:
    """Remind of an invoice at a time, and at no other."""
    invoice.reminder = uuid4()
    invoice.save(update_fields=["reminder"])
    send = partial(send_reminder.apply_async, (invoice.pk,), task_id=str(invoice.reminder), eta=at)
    transaction.on_commit(send)


move_reminder = plan_reminder


def drop_reminder(invoice: Invoice) -> None:
    """Do not remind of an invoice."""
    invoice.reminder = None
    invoice.save(update_fields=["reminder"])


def pay(invoice: Invoice) -> None:
    """Book the payment of an invoice."""
    book_payment.delay_on_commit(invoice.pk)


@transaction.atomic
def begin_export(pages: int) -> Export:
    """Write a file of so many pages."""
    export = Export.objects.create(pages=pages)
    write_export.delay_on_commit(export.pk)
    return export


def stop_export(export: Export) -> None:
    """Stop an export, whether it waits or runs."""
    Export.objects.filter(pk=export.pk).exclude(state="done").update(state="stopped")
