"""A condition on messages in the SQL of JMS: which messages a consumer wants.

The grammar, the loosest binding first:

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
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from django_mq.engine import expressions
from django_mq.engine.expressions import COMPARISON_SIGNS, Value, escapes_well, number
from django_mq.engine.message import Message
from django_mq.errors import MalformedSelector


class Selector:
    """A condition on messages, written as in the WHERE of an SQL statement.

    A blank text matches every message. Raises MalformedSelector if it is no text,
    cannot be parsed, is longer than 16,384 characters or is nested more than 50 deep.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise MalformedSelector(f"A selector is a text, not {type(text).__name__}.", position=0)
        self.text = text
        self._condition = parsed(text, expressions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def matches(self, message: Message) -> bool:
        """Whether the condition is true, and not merely unknown. Never raises."""
        return self._condition(message) is True


Part = TypeVar("Part")


class Terms(Protocol[Part]):
    """What a selector is made of, for the parser: the module ``expressions`` makes functions of messages.

    ``every`` is AND, ``some`` is OR, ``absence`` is IS NULL, ``membership`` is IN, and ``chain`` is a sum or a
    product, from left to right.
    """

    def literal(self, value: Value, /) -> Part: ...
    def named(self, name: str, /) -> Part: ...
    def every(self, parts: list[Part], /) -> Part: ...
    def some(self, parts: list[Part], /) -> Part: ...
    def negation(self, part: Part, /) -> Part: ...
    def absence(self, part: Part, /) -> Part: ...
    def comparison(self, sign: str, left: Part, right: Part, /) -> Part: ...
    def chain(self, first: Part, steps: list[tuple[str, Part]], /) -> Part: ...
    def membership(self, part: Part, members: list[Value], /) -> Part: ...
    def like(self, part: Part, pattern: str, escape: str, /) -> Part: ...


def parsed(text: str, terms: Terms[Part]) -> Part:
    """Return what the terms make of a selector. Raises MalformedSelector."""
    return _Parser(text, terms).selector() if text.strip() else terms.literal(True)


#: The most characters of a selector. Parsing the longest one takes some hundredths of a second.
LONGEST_TEXT: Final = 16_384
#: The deepest nesting of parentheses, NOT and signs. A level takes up to eight nested
#: calls, and Python allows a thousand, of which the caller has used some.
DEEPEST_NESTING: Final = 50

#: How tightly an operator binds; the levels are the lines of the grammar.
_OR, _AND, _NOT, _TEST, _SUM, _PRODUCT, _FACTOR = range(1, 8)
_LEVELS: Final = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys((*COMPARISON_SIGNS, "IS", "NOT", "IN", "LIKE", "BETWEEN"), _TEST),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/", _PRODUCT),
}


class _Parser(Generic[Part]):
    def __init__(self, text: str, terms: Terms[Part]) -> None:
        if len(text) > LONGEST_TEXT:
            raise MalformedSelector(
                f"The selector has {len(text)} characters; {LONGEST_TEXT} is the most.", position=LONGEST_TEXT
            )
        self._terms = terms
        self._tokens = tokens(text)
        #: The next token; those before it have been parsed.
        self._token = next(self._tokens)
        self._depth = 0

    def selector(self) -> Part:
        expression = self._parse(_OR)
        if self._token.kind != "end":
            raise self._expected("an operator or the end")
        return expression

    def _parse(self, loosest: int) -> Part:
        """Parse an expression of operators that bind at least as tightly as ``loosest``."""
        tightest = _AND if self._next_is("NOT") else _PRODUCT  # what follows the first operand
        part = self._operand(loosest)
        while loosest <= (level := self._level()) <= tightest:
            if level == _TEST:
                part, tightest = self._predicate(part), _AND
            else:
                part = self._joined(part, level)
        return part

    def _level(self) -> int:
        return _LEVELS.get(str(self._token.value), 0) if self._token.kind == "symbol" else 0

    def _joined(self, first: Part, level: int) -> Part:
        # Collected, not nested: a thousand parts must not be a thousand calls deep.
        steps: list[tuple[str, Part]] = []
        while self._level() == level:
            steps.append((self._symbol(), self._parse(level + 1)))
        if level > _TEST:
            return self._terms.chain(first, steps)
        parts = [first, *(part for _, part in steps)]
        return self._terms.every(parts) if level == _AND else self._terms.some(parts)

    def _operand(self, loosest: int) -> Part:
        if self._next_is("("):
            return self._deeper(self._group)
        if self._next_is("+", "-"):
            return self._deeper(self._signed)
        if self._next_is("NOT") and loosest <= _NOT:
            return self._deeper(self._negated)
        if self._token.kind == "name":
            return self._terms.named(self._symbol())
        if self._next_is("NULL"):
            raise self._expected("a value (IS NULL asks whether there is none)")
        value: Value = self._literal("a value", str, int, float, bool)
        return self._terms.literal(value)

    def _deeper(self, rule: Callable[[str], Part]) -> Part:
        if self._depth == DEEPEST_NESTING:
            raise self._wrong(f"Nested more than {DEEPEST_NESTING} deep")
        self._depth += 1
        expression = rule(self._symbol())
        self._depth -= 1
        return expression

    def _group(self, _: str) -> Part:
        inside = self._parse(_OR)
        self._require(")")
        return inside

    def _signed(self, sign: str) -> Part:
        return self._terms.chain(self._terms.literal(0), [(sign, self._operand(_FACTOR))])

    def _negated(self, _: str) -> Part:
        return self._terms.negation(self._parse(_NOT))

    def _predicate(self, part: Part) -> Part:
        if self._next_is(*COMPARISON_SIGNS):
            return self._terms.comparison(self._symbol(), part, self._parse(_SUM))
        if self._take("IS"):
            negated = self._take("NOT")
            self._require("NULL")
            test = self._terms.absence(part)
        else:
            negated = self._take("NOT")
            test = self._test(part)
        return self._terms.negation(test) if negated else test

    def _test(self, part: Part) -> Part:
        if self._take("IN"):
            return self._terms.membership(part, self._members())
        if self._take("LIKE"):
            return self._terms.like(part, *self._pattern())
        if self._take("BETWEEN"):
            low = self._parse(_SUM)
            self._require("AND")
            above = self._terms.comparison(">=", part, low)
            return self._terms.every([above, self._terms.comparison("<=", part, self._parse(_SUM))])
        raise self._expected("IN, LIKE or BETWEEN")

    def _members(self) -> list[Value]:
        self._require("(")
        members = [self._member()]
        while self._take(","):
            members.append(self._member())
        self._require(")")
        return members

    def _member(self) -> Value:
        if not self._next_is("+", "-"):
            member: Value = self._literal("a literal", str, int, float, bool)
            return member
        negative = self._symbol() == "-"
        size: int | float = self._literal("a number", int, float)
        return -size if negative else size

    def _pattern(self) -> tuple[str, str]:
        position = self._token.position
        pattern = self._literal("a pattern in quotes", str)
        escape = ""
        if self._take("ESCAPE"):
            if len(str(self._token.value)) != 1:
                raise self._expected("one character in quotes")
            escape = self._literal("one character in quotes", str)
        if escape and not escapes_well(pattern, escape):
            raise MalformedSelector(
                f"The pattern at position {position} has {escape!r} before something other than %, _ or itself.",
                position=position,
            )
        return pattern, escape

    def _literal(self, wanted: str, *types: type) -> Any:
        value = self._token.value
        if self._token.kind != "literal" or type(value) not in types:
            raise self._expected(wanted)
        self._token = next(self._tokens)
        return value

    def _require(self, symbol: str) -> None:
        if not self._take(symbol):
            raise self._expected(symbol)

    def _take(self, symbol: str) -> bool:
        return self._next_is(symbol) and bool(self._symbol())

    def _symbol(self) -> str:
        symbol = str(self._token.value)
        self._token = next(self._tokens)
        return symbol

    def _next_is(self, *symbols: str) -> bool:
        return self._token.kind == "symbol" and self._token.value in symbols

    def _expected(self, wanted: str) -> MalformedSelector:
        return self._wrong(f"Expected {wanted}")

    def _wrong(self, what: str) -> MalformedSelector:
        position, spelling = self._token.position, self._token.spelling[:LONGEST_QUOTE]
        found = f"found {spelling!r}" if spelling else "found the end"
        return MalformedSelector(f"{what}, {found} at position {position}.", position=position)


class Token(NamedTuple):
    """One token, and where in the text it begins."""

    #: "symbol" for a keyword, in capitals, or a sign; "name", "literal" or "end".
    kind: str
    value: Value
    position: int
    #: As written.
    spelling: str


#: The most characters of the text that an error quotes.
LONGEST_QUOTE: Final = 20
KEYWORDS: Final = frozenset({"AND", "BETWEEN", "ESCAPE", "IN", "IS", "LIKE", "NOT", "NULL", "OR"})
_TRUTHS: Final = {"TRUE": True, "FALSE": False}
# The possessive *+ and ++ do not backtrack. Otherwise the unclosed text 'a''b would be read as the text 'a',
# followed by an error, and a long number that ends wrongly would take a time that grows with its square.
_TOKEN: Final = re.compile(
    r"""
      (?P<word> (?: [^\W\d] | \$ ) [\w$]* )
    | (?P<number> (?: 0[xX][0-9a-fA-F]++ | (?: [0-9]++ (?: \.[0-9]*+ )?+ | \.[0-9]++ ) (?: [eE][+-]?[0-9]++ )?+ )
        (?! [\w$.] ) )
    | (?P<text> ' [^']*+ (?: '' [^']*+ )*+ ' )
    | (?P<quoted> " [^"]*+ (?: "" [^"]*+ )*+ " )
    | (?P<sign> <> | <= | >= | [-=<>+*/(),] )
    | (?P<space> \s+ )
    """,
    re.VERBOSE,
)
#: A hint for an unknown token, by its first character.
_HINTS: Final = {
    "'": "This text has no closing quote",
    '"': "This name has no closing quote",
    "!": "Unequal is written <>",
    ".": "A name with a dot is written in double quotes",
    **dict.fromkeys("0123456789", "This is no number"),
}


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens, "end" last; raises MalformedSelector at a character that begins none."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            hint = _HINTS.get(text[position], "No name, literal or operator begins like this")
            quote = text[position : position + LONGEST_QUOTE]
            raise MalformedSelector(f"{hint}: {quote!r} at position {position}.", position=position)
        if found.lastgroup != "space":
            yield Token(*_read(str(found.lastgroup), found.group(), position), position, found.group())
        position = found.end()
    yield Token("end", None, len(text), "")


def _read(group: str, spelling: str, position: int) -> tuple[str, Value]:
    """Return the kind and the value of a token."""
    if group == "number":
        return "literal", _number(spelling, position)
    if group == "text":
        return "literal", spelling[1:-1].replace("''", "'")
    if group == "quoted":
        return "name", spelling[1:-1].replace('""', '"')
    # Outside ASCII some letters have the capitals I, S and K; a word with one of them is no keyword.
    capitals = spelling.upper() if spelling.isascii() else spelling
    if capitals in _TRUTHS:
        return "literal", _TRUTHS[capitals]
    return ("symbol", capitals) if group == "sign" or capitals in KEYWORDS else ("name", spelling)


def _number(spelling: str, position: int) -> int | float:
    try:
        is_whole = spelling.isdecimal() or spelling[:2] in ("0x", "0X")
        value = number(int(spelling, 16 if spelling[1:2] in ("x", "X") else 10) if is_whole else float(spelling))
    except ValueError:  # more digits than Python converts
        value = None
    if value is None:
        raise MalformedSelector(f"The number at position {position} is too large.", position=position)
    return value
