"""A condition on messages in the SQL of JMS: which messages a consumer wants.

The text becomes an expression by recursive descent, one method per line of the grammar, the loosest
binding first:

    condition   = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation    = NOT negation | predicate
    predicate   = sum [ sign sum | IS [NOT] NULL | [NOT] test ]
    test        = IN ( member {, member} ) | LIKE text [ESCAPE text] | BETWEEN sum AND sum
    sum         = product { + product | - product }
    product     = factor { * factor | / factor }
    factor      = + factor | - factor | ( condition ) | literal | name
"""

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

from django_mq.engine.expressions import (
    COMPARISON_SIGNS,
    Expression,
    Matcher,
    Step,
    Value,
    absence,
    between,
    chain,
    comparison,
    escapes_well,
    every,
    like,
    literal,
    matcher_of,
    membership,
    named,
    negation,
    number,
    signed,
    some,
)
from django_mq.engine.message import Message
from django_mq.errors import MalformedSelector

_EVERY_MESSAGE: Final = literal(value=True)


class Selector:
    """A condition on messages, written as in the WHERE of an SQL statement.

    A blank text matches every message. Raises MalformedSelector if the text
    cannot be parsed, is longer than 16,384 characters or is nested more than 50 deep.
    """

    __slots__ = ("_condition", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._condition: Expression = parse(text) if text.strip() else _EVERY_MESSAGE

    def matches(self, message: Message) -> bool:
        """Whether the condition is true, and not merely unknown. Never raises."""
        return self._condition(message) is True


#: The most characters of a selector. Parsing the longest one takes some hundredths of a second.
LONGEST_TEXT: Final = 16_384
#: The deepest nesting of parentheses, NOT and signs. A level takes up to eight nested
#: calls, and Python allows a thousand, of which the caller has used some.
DEEPEST_NESTING: Final = 50


def parse(text: str) -> Expression:
    """Return the expression of a text; raises MalformedSelector."""
    if len(text) > LONGEST_TEXT:
        raise MalformedSelector(
            f"The selector has {len(text)} characters; {LONGEST_TEXT} is the most.", position=LONGEST_TEXT
        )
    return _Parser(text).selector()


class _Parser:
    __slots__ = ("_depth", "_token", "_tokens")

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        #: The next token; those before it have been parsed.
        self._token = next(self._tokens)
        self._depth = 0

    def selector(self) -> Expression:
        expression = self._condition()
        if self._token.kind is not Kind.END:
            raise self._expected("an operator or the end")
        return expression

    def _condition(self) -> Expression:
        parts = [self._conjunction()]
        while self._take("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else some(parts)

    def _conjunction(self) -> Expression:
        parts = [self._negation()]
        while self._take("AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else every(parts)

    def _negation(self) -> Expression:
        return self._deeper(self._negated) if self._next_is("NOT") else self._predicate()

    def _negated(self) -> Expression:
        self._advance()
        return negation(self._negation())

    def _predicate(self) -> Expression:
        part = self._sum()
        if self._next_is(*COMPARISON_SIGNS):
            return comparison(self._symbol(), part, self._sum())
        if self._take("IS"):
            return self._absence(part)
        if self._take("NOT"):
            return negation(self._test(part))
        return self._test(part) if self._next_is("IN", "LIKE", "BETWEEN") else part

    def _absence(self, part: Expression) -> Expression:
        negated = self._take("NOT")
        self._require("NULL")
        absent = absence(part)
        return negation(absent) if negated else absent

    def _test(self, part: Expression) -> Expression:
        if self._take("IN"):
            return membership(part, self._members())
        if self._take("LIKE"):
            return like(part, self._matcher())
        if self._take("BETWEEN"):
            return self._between(part)
        raise self._expected("IN, LIKE or BETWEEN")

    def _members(self) -> list[Value]:
        self._require("(")
        members = [self._member()]
        while self._take(","):
            members.append(self._member())
        self._require(")")
        return members

    def _member(self) -> Value:
        negative = self._take("-")
        if negative or self._take("+"):
            size: int | float = self._literal("a number", int, float)
            return -size if negative else size
        member: Value = self._literal("a literal", str, int, float, bool)
        return member

    def _matcher(self) -> Matcher:
        position = self._token.position
        pattern = self._literal("a pattern in quotes", str)
        escape = self._escape() if self._take("ESCAPE") else ""
        if escape and not escapes_well(pattern, escape):
            raise MalformedSelector(
                f"The pattern at position {position} has {escape!r} before something other than %, _ or itself.",
                position=position,
            )
        return matcher_of(pattern, escape)

    def _escape(self) -> str:
        token = self._token
        if token.kind is not Kind.LITERAL or type(token.value) is not str or len(token.value) != 1:
            raise self._expected("one character in quotes")
        self._advance()
        return token.value

    def _between(self, part: Expression) -> Expression:
        low = self._sum()
        self._require("AND")
        return between(part, low, self._sum())

    def _sum(self) -> Expression:
        first, steps = self._product(), list[Step]()
        while self._next_is("+", "-"):
            steps.append((self._symbol(), self._product()))
        return chain(first, steps) if steps else first

    def _product(self) -> Expression:
        first, steps = self._factor(), list[Step]()
        while self._next_is("*", "/"):
            steps.append((self._symbol(), self._factor()))
        return chain(first, steps) if steps else first

    def _factor(self) -> Expression:
        if self._next_is("("):
            return self._deeper(self._group)
        if self._next_is("+", "-"):
            return self._deeper(self._signed)
        return self._operand()

    def _group(self) -> Expression:
        self._advance()
        inside = self._condition()
        self._require(")")
        return inside

    def _signed(self) -> Expression:
        return signed(self._symbol(), self._factor())

    def _operand(self) -> Expression:
        token = self._token
        if token.kind is Kind.NAME:
            self._advance()
            return named(str(token.value))
        if self._next_is("NULL"):
            raise self._expected("a value (IS NULL asks whether there is none)")
        return literal(self._literal("a value", str, int, float, bool))

    # Helpers of the methods above.

    def _deeper(self, rule: Callable[[], Expression]) -> Expression:
        if self._depth == DEEPEST_NESTING:
            raise self._wrong(f"Nested more than {DEEPEST_NESTING} deep")
        self._depth += 1
        expression = rule()
        self._depth -= 1
        return expression

    def _literal(self, wanted: str, *types: type) -> Any:
        value = self._token.value
        if self._token.kind is not Kind.LITERAL or type(value) not in types:
            raise self._expected(wanted)
        self._advance()
        return value

    def _require(self, symbol: str) -> None:
        if not self._take(symbol):
            raise self._expected(symbol)

    def _take(self, symbol: str) -> bool:
        found = self._next_is(symbol)
        if found:
            self._advance()
        return found

    def _symbol(self) -> str:
        symbol = str(self._token.value)
        self._advance()
        return symbol

    def _next_is(self, *symbols: str) -> bool:
        return self._token.kind is Kind.SYMBOL and self._token.value in symbols

    def _advance(self) -> None:
        self._token = next(self._tokens)

    def _expected(self, wanted: str) -> MalformedSelector:
        return self._wrong(f"Expected {wanted}")

    def _wrong(self, what: str) -> MalformedSelector:
        position, spelling = self._token.position, self._token.spelling[:LONGEST_QUOTE]
        found = f"found {spelling!r}" if spelling else "found the end"
        return MalformedSelector(f"{what}, {found} at position {position}.", position=position)


class Kind(Enum):
    """The kind of a token."""

    #: A keyword, in capitals, or a sign.
    SYMBOL = "symbol"
    NAME = "name"
    LITERAL = "literal"
    END = "end"


class Token(NamedTuple):
    """One token, and where in the text it begins."""

    kind: Kind
    value: Value
    position: int
    #: As written.
    spelling: str


#: The most characters of the text that an error quotes.
LONGEST_QUOTE: Final = 20
KEYWORDS: Final = frozenset({"AND", "BETWEEN", "ESCAPE", "IN", "IS", "LIKE", "NOT", "NULL", "OR"})
_TRUTHS: Final = {"TRUE": True, "FALSE": False}
# The possessive *+ does not backtrack. Otherwise the unclosed text 'a''b would be read as the
# text 'a', followed by an error.
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
    """Yield the tokens, END last; raises MalformedSelector at a character that begins none."""
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
    # Outside ASCII some letters have the capitals I, S and K; a word with one of them is no keyword.
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
#: A hint for an unknown token, by its first character.
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
