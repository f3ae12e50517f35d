"""What a name in a selector stands for: a property of the message, or else a header.

The names of the properties are those of JMS and, with AMQ in front, those of Artemis. A
header that has the name of a property cannot be asked for.
"""

from collections.abc import Callable, Mapping
from typing import Final

from django_mq.engine.message import Message
from django_mq.engine.selectors.values import Expression, Value, number, value_of


def named(name: str) -> Expression:
    """Reads the property of this name, or the header if there is no such property."""
    read = PROPERTIES.get(name)
    return _header(name) if read is None else _property(read)


def _header(name: str) -> Expression:
    def value(message: Message) -> Value:
        return value_of(message.headers.get(name))

    return value


def _property(read: Callable[[Message], object]) -> Expression:
    def value(message: Message) -> Value:
        return value_of(read(message))

    return value


def _milliseconds(seconds: object) -> object:
    """A time as JMS counts it; None for what is none."""
    time = value_of(seconds)
    if type(time) is not int and type(time) is not float:
        return None
    milliseconds = number(time * 1000)
    return None if milliseconds is None else round(milliseconds)


def _published(message: Message) -> object:
    return _milliseconds(message.published_at)


def _deliverable(message: Message) -> object:
    return _milliseconds(message.published_at if message.deliver_at is None else message.deliver_at)


def _expires(message: Message) -> object:
    # JMS has 0 for "never", and selectors written for JMS ask for it.
    return 0 if message.expires_at is None else _milliseconds(message.expires_at)


def _id(message: Message) -> object:
    return message.id


def _priority(message: Message) -> object:
    return message.priority


def _queue(message: Message) -> object:
    return message.queue or None


#: From the name in the selector to what reads it.
PROPERTIES: Final[Mapping[str, Callable[[Message], object]]] = {
    "JMSMessageID": _id,
    "JMSPriority": _priority,
    "JMSTimestamp": _published,
    "JMSDeliveryTime": _deliverable,
    "JMSExpiration": _expires,
    "JMSDestination": _queue,
    "JMSType": lambda message: message.type or None,
    "JMSCorrelationID": lambda message: message.correlation_id,
    "JMSReplyTo": lambda message: message.reply_to,
    "AMQUserID": _id,
    "AMQPriority": _priority,
    "AMQTimestamp": _published,
    "AMQExpiration": _expires,
    "AMQAddress": _queue,
    "AMQSize": lambda message: message.size,
}
