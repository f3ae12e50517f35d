"""The shop's tasks: an order asks for a mail; some come later, some fail at first."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tests.journeys.project import diary


@shared_task(name="shop.place_order")
def place_order(order: str) -> None:
    diary.write(task="order", name=order)
    send_mail.delay(order)


@shared_task(
    name="shop.send_mail", bind=True, autoretry_for=(ConnectionError,), retry_backoff=1, retry_jitter=False
)
def send_mail(task: Any, order: str) -> None:
    if order.endswith("0") and task.request.retries == 0:
        raise ConnectionError("the mail server is away")
    diary.write(task="mail", name=order)
