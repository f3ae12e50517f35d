"""The words of a selector: names, literals, and symbols, which are keywords and signs."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

from django_mq.engine.selectors.values import Value, number
from django_mq.errors import MalformedSelector


class Kind(Enum):
    """What a token is."""

    #: A keyword, in capitals, or a sign.
    SYMBOL = "symbol"
    NAME = "name"
    LITERAL = "literal"
    END = "end"


class Token(NamedTuple):
    """One word, and where in the text it begins."""

    kind: Kind
    value: Value
    position: int
    #: As written.
    spelling: str


#: Characters of the text that an error repeats.
LONGEST_QUOTE: Final = 20

KEYWORDS: Final = frozenset({"AND", "BETWEEN", "ESCAPE", "IN", "IS", "LIKE", "NOT", "NULL", "OR"})
_TRUTHS: Final = {"TRUE": True, "FALSE": False}

# The possessive *+ gives nothing back. Without it the unclosed text 'a''b would be read as the
# text 'a' with something wrong behind it.
_TOKEN: Final = re.compile(
    r"""
      (?P<word> (?: [^\W\d] | \$ ) [\w$]* )
    | (?P<number> (?: 0[xX][0-9a-fA-F]+ | (?: [0-9]+\.?[0-9]* | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? ) (?! [\w$.] ) )
    | (?P<text> ' [^']*+ (?: '' [^']*+ )*+ ' )
    | (?P<quoted> " [^"]*+ (?: "" [^"]*+ )*+ " )
    | (?P<sign> <> | <= | >= | [-=<>+*/(),] )
    """,
    re.VERBOSE,
)
_SPACE: Final = re.compile(r"\s*")


def tokens(text: str) -> Iterator[Token]:
    """The tokens one by one, an END last; raise MalformedSelector at what is none."""
    position = _after_space(text, 0)
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise MalformedSelector(_complaint(text, position), position=position)
        yield _token(found, position)
        position = _after_space(text, found.end())
    yield Token(Kind.END, None, len(text), "")


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _token(found: re.Match[str], position: int) -> Token:
    spelling = found.group()
    kind, value = _READ[str(found.lastgroup)](spelling)
    if kind is Kind.LITERAL and value is None:
        raise MalformedSelector(f"The number at position {position} is too large.", position=position)
    return Token(kind, value, position, spelling)


def _word(spelling: str) -> tuple[Kind, Value]:
    # Outside ASCII there are letters whose capitals are I, S and K: they make no keyword.
    capitals = spelling.upper() if spelling.isascii() else spelling
    if capitals in _TRUTHS:
        return Kind.LITERAL, _TRUTHS[capitals]
    return (Kind.SYMBOL, capitals) if capitals in KEYWORDS else (Kind.NAME, spelling)


def _number(spelling: str) -> tuple[Kind, Value]:
    try:
        return Kind.LITERAL, number(_parsed(spelling))
    except ValueError:  # more digits than Python converts
        return Kind.LITERAL, None


def _parsed(spelling: str) -> int | float:
    if spelling[:2] in ("0x", "0X"):
        return int(spelling, 16)
    return int(spelling) if spelling.isdecimal() else float(spelling)


_READ: Final[dict[str, Any]] = {
    "word": _word,
    "number": _number,
    "text": lambda spelling: (Kind.LITERAL, spelling[1:-1].replace("''", "'")),
    "quoted": lambda spelling: (Kind.NAME, spelling[1:-1].replace('""', '"')),
    "sign": lambda spelling: (Kind.SYMBOL, spelling),
}


#: What is probably meant by something that begins with this character.
_HINTS: Final = {
    "'": "This text has no closing quote",
    '"': "This name has no closing quote",
    "!": "Unequal is written <>",
    ".": "A name with a dot is written in double quotes",
    **dict.fromkeys("0123456789", "This is no number"),
}


def _complaint(text: str, position: int) -> str:
    hint = _HINTS.get(text[position], "No name, literal or operator begins like this")
    return f"{hint}: {text[position : position + LONGEST_QUOTE]!r} at position {position}."
