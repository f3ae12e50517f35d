"""How mypy sees handlers. A comment at the end of a line is the error that it has to report there."""

from dataclasses import dataclass
from typing import Any, assert_type
from uuid import UUID

from pydantic import BaseModel

from django_mq.api import ReceivedMessage, consumer


@dataclass
class Receipt:
    order: int


class Refund(BaseModel):
    order: int


@consumer("receipts", type="receipt.v2", credit=20)
def send(receipt: Receipt, message: ReceivedMessage) -> int:
    return receipt.order + message.attempt


@consumer("refunds")
def refund(refund: Refund) -> None:
    assert refund


@consumer("numbers", shared=True)
def add(numbers: dict[str, int]) -> None:
    assert numbers


@consumer("slow")
async def send_slowly(receipt: Receipt) -> int:
    return receipt.order


@consumer("receipts", bulk=100, bulk_seconds=0.5)
def send_many(receipts: list[Receipt]) -> int:
    return len(receipts)


@consumer("plain", bulk=100)
def plain_many(messages: list[ReceivedMessage]) -> None:
    assert messages


@consumer("lists")
def sum_up(numbers: list[int]) -> int:
    return sum(numbers)


@consumer("plain")
def plain(message: ReceivedMessage) -> str:
    return message.type


@consumer("anything")
def anything(message: Any) -> None:
    assert message


@consumer("receipts", credit="20")  # error: arg-type
def wrong_option(receipt: Receipt) -> None:
    assert receipt


def published() -> None:
    assert_type(send.publish(Receipt(7)), UUID)
    assert_type(send.publish_many([Receipt(7), Receipt(8)], delay=60), list[UUID])
    send.publish(Receipt(7), delay=60, priority=9, headers={"region": "eu"}, using="default")
    refund.publish(Refund(order=7))
    add.publish({"a": 1})
    plain.publish({"any": "body"}, type="x")
    anything.publish(3)
    consumer("receipts")(send).publish(Receipt(7))

    assert_type(send_many.publish(Receipt(7)), UUID)
    assert_type(send_many.publish_many([Receipt(7)], delay=60), list[UUID])
    plain_many.publish({"any": "body"})
    sum_up.publish([1, 2])

    sum_up.publish(1)  # error: arg-type
    send_many.publish([Receipt(7)])  # error: arg-type
    send.publish({"order": 7})  # error: arg-type
    send.publish(Receipt(7), dealy=60)  # error: call-arg
    send.publish(Receipt(7), delay="60")  # error: arg-type
    send.publish(Receipt(7), exchange="shop")  # error: call-arg
    send.publish_many([Receipt(7), 8])  # error: list-item
    refund.publish(Receipt(7))  # error: arg-type
    add.publish({"a": "1"})  # error: dict-item


async def published_from_async_code() -> None:
    assert_type(await send.apublish(Receipt(7)), UUID)
    assert_type(await send_slowly.apublish(Receipt(7)), UUID)
    assert_type(await send_slowly(Receipt(7)), int)
    await send.apublish(7)  # error: arg-type


def called(message: ReceivedMessage) -> None:
    assert_type(send(Receipt(7), message), int)
    assert_type(send(receipt=Receipt(7), message=message), int)
    assert_type(plain(message), str)
    assert_type(send_many([Receipt(7)]), int)
    send(Receipt(7))  # error: call-arg
    send({"order": 7}, message)  # error: arg-type
