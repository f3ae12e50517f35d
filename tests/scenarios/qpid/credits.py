"""From the credit of a consumer in words to the engine's."""

from typing import TYPE_CHECKING, Final

from django_mq.engine.decisions.credit import PrefetchCredit, WindowCredit
from django_mq.inprocess.consumers.credit import SpendingCredit
from tests.scenarios.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.engine.decisions.credit import Credit


def read_credit(value: object) -> "Credit":
    """The credit a consumer begins with."""
    fields = Fields(value, "the credit")
    make = fields.choice("mode", _MODES, _unlimited)
    credit = make(amount(fields, "messages", None), amount(fields, "bytes", None))
    fields.finish()
    return credit


def amount(fields: Fields, name: str, default: int | None) -> int | None:
    """So many messages or bytes; null, and what is negative, is any number."""
    if not fields.has(name):
        fields.want(name, int, None)
        return default
    value = fields.want(name, int, None)
    return None if value is None or value < 0 else value


def _unlimited(_: int | None, __: int | None) -> "Credit":
    return WindowCredit()


def _prefetch(messages: int | None, size_bytes: int | None) -> "Credit":
    return PrefetchCredit(messages or None, size_bytes or None)


_MODES: "Final[dict[str, Callable[[int | None, int | None], Credit]]]" = {
    "unlimited": _unlimited,
    "window": WindowCredit,
    "credit": SpendingCredit,
    "prefetch": _prefetch,
}
