"""A number of messages or bytes, or None for any number."""

from typing import Final

from django_mq.errors import OutOfRange

#: As an amount: any number.
UNLIMITED: Final = None

#: The largest amount; sums stop here.
MOST: Final = 2**63


def check_amount(amount: object) -> None:
    """Raise OutOfRange unless this is a whole number in 0..MOST, or None."""
    if amount is UNLIMITED:
        return
    # True is an int for Python; as an amount it is a slip.
    if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= MOST:
        raise OutOfRange(f"Credit is a whole number in 0..2**63, or None for any number, not {amount!r}.")


def total(amount: int | None, more: int | None) -> int | None:
    """The sum. Any number and something more is any number; sums above MOST are MOST."""
    if amount is UNLIMITED or more is UNLIMITED:
        return UNLIMITED
    return min(amount + more, MOST)
