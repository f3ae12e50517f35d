"""Names and short texts that every database can store."""

from typing import Final, TypeGuard

#: The longest name of a queue or an exchange, in characters.
NAME_LENGTH: Final = 200
WHAT_A_NAME_IS: Final = f"a queue's name is a text of 1 to {NAME_LENGTH} characters that a database can store"


def is_name(value: object) -> TypeGuard[str]:
    """Whether a queue can be called so, in every database."""
    return isinstance(value, str) and value != "" and is_storable(value, NAME_LENGTH)


def is_storable(text: str, limit: int) -> bool:
    """Whether every database takes the text: no null, no half of a surrogate pair, and not too long."""
    if len(text) > limit or "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
