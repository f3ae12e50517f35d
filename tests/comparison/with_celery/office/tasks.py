"""What the office does in the background."""

import redis
from celery import shared_task
from celery.contrib.django.task import DjangoTask
from django.conf import settings

from office.models import Export, Invoice
from tests.comparison import outside


class Letter(DjangoTask):
    """A letter to a customer."""

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        """Tell the clerks that a letter will not arrive."""
        Invoice.objects.filter(pk=args[0]).update(state="failed")


@shared_task(
    bind=True,
    base=Letter,
    autoretry_for=(ConnectionError,),
    max_retries=2,
    retry_backoff=settings.PAUSE_SECONDS,
    retry_jitter=False,
)
def send_invoice(self, pk):
    """Send an invoice."""
    try:
        outside.send_letter(Invoice.objects.get(pk=pk).address)
    except outside.PostIsClosed:
        # A new task, because a retry would count.
        self.apply_async((pk,), countdown=settings.PAUSE_SECONDS)
    else:
        Invoice.objects.filter(pk=pk).update(state="sent")


@shared_task(bind=True)
def send_reminder(self, pk):
    """Remind of an invoice, unless another task does since."""
    invoice = Invoice.objects.get(pk=pk)
    if str(invoice.reminder) == self.request.id:
        outside.send_letter(invoice.address)
        Invoice.objects.filter(pk=pk).update(state="reminded")


@shared_task(bind=True, max_retries=None)
def book_payment(self, pk):
    """Book the payment of an invoice; the bank takes one at a time of each account."""
    account = Invoice.objects.get(pk=pk).account
    lock = redis.Redis.from_url(settings.CELERY_BROKER_URL).lock(f"office.account.{account}", timeout=600)
    if not lock.acquire(blocking=False):
        raise self.retry(countdown=settings.PAUSE_SECONDS)
    try:
        outside.book(account, pk)
    finally:
        lock.release()
    Invoice.objects.filter(pk=pk).update(state="paid")


@shared_task
def write_export(pk):
    """Write the pages that are not there yet."""
    export = Export.objects.get(pk=pk)
    going_on = Export.objects.filter(pk=pk, state="waiting")
    for page in range(export.done + 1, export.pages + 1):
        if not going_on.exists():
            outside.discard(pk)
            return
        outside.write_page(pk, page)
        Export.objects.filter(pk=pk).update(done=page)
    going_on.update(state="done")
