"""What a body becomes by an annotation, what it is in JSON, and what does not fit."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Mapping, Sequence  # noqa: TC003 - annotations that are resolved
from copy import deepcopy
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NewType, NotRequired, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pytest
from django.contrib.auth.models import User

from django_mq.delivery.codecs import ReceivedMessage, decode_body, encode_body
from django_mq.errors import BodyNotSerialisable, UnfitBody
from django_mq.typed.signature import signature_of

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
Sku = NewType("Sku", str)


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


class Point(Enum):
    ORIGIN = (0, 0)


@dataclass
class Line:
    sku: Sku
    quantity: int = 1
    parts: list[Line] = field(default_factory=list)


class Address(TypedDict):
    city: str
    code: NotRequired[UUID]


class Customer(pydantic.BaseModel):
    since: dt.date
    tags: set[int]
    home: Path
    credit: Decimal = pydantic.Field(alias="creditLimit")


class Strict(pydantic.BaseModel, strict=True):
    at: dt.datetime
    tags: frozenset[str]


class Parcel(msgspec.Struct):
    path: Path
    at: dt.datetime
    weights: list[int] = []
    colour: Colour = Colour.RED


@dataclass(frozen=True, kw_only=True)
class Order:
    id: UUID
    at: dt.datetime
    day: dt.date
    time: dt.time
    wait: dt.timedelta
    total: Decimal
    rate: float
    colour: Colour
    size: Size
    path: Path
    tags: frozenset[str]
    lines: Sequence[Line]
    pair: tuple[int, str]
    row: tuple[float, ...]
    by_number: Mapping[int, Line]
    note: str | None
    way: Literal["mail", 1]
    shade: Literal[Colour.RED]
    address: Address
    customer: Customer
    strict: Strict
    parcel: Parcel
    anything: Any


NOON = dt.datetime(2031, 1, 31, 12, 0, 0, 1, tzinfo=dt.UTC)
ORDER = Order(
    id=UUID(int=7),
    at=NOON,
    day=NOON.date(),
    time=NOON.time(),
    wait=dt.timedelta(days=1, microseconds=5),
    total=Decimal("12.50"),
    rate=1.5,
    colour=Colour.RED,
    size=Size.SMALL,
    path=Path("/srv/a b"),
    tags=frozenset({"x", "y"}),
    lines=[Line(Sku("tea"), parts=[Line(Sku("leaf"), 2)])],
    pair=(1, "one"),
    row=(1.0, 2.0),
    by_number={1: Line(Sku("tea"))},
    note=None,
    way="mail",
    shade=Colour.RED,
    address={"city": "Rome", "code": UUID(int=1)},
    customer=Customer(since=NOON.date(), tags={1, 2}, home=Path("/home"), creditLimit=Decimal("0.10")),
    strict=Strict(at=NOON, tags=frozenset({"x"})),
    parcel=Parcel(Path("/p"), NOON, [1]),
    anything={"a": [1]},
)


def an_order(_: Order) -> None:
    """Take an order."""


def reader(annotation: Any) -> Callable[[Any], Any]:
    """Return what reads the body for a parameter with this annotation."""

    def handler(body: Any) -> None:
        """Take a body."""

    handler.__annotations__ = {"body": annotation}
    signature = signature_of(handler)
    assert signature is not None
    return signature.read


def stored(value: Any) -> Any:
    return decode_body(*encode_body(value))


def test_what_is_published_is_read_as_the_same_object() -> None:
    assert reader(Order)(stored(ORDER)) == ORDER


def test_keys_that_the_type_does_not_have_are_left_out_and_defaults_filled_in() -> None:
    assert reader(Line)({"sku": "tea", "later": 1}) == Line(Sku("tea"))
    assert reader(Address)({"city": "Rome", "later": 1}) == {"city": "Rome"}


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["id"], ..., "id is missing"),
        (["id"], 3, "id must be a UUID, and is a whole number"),
        (["id"], "secret", "id must be a UUID, and is another text"),
        (["at"], "soon", "at must be a date and time, as 2031-01-31T09:00:00+01:00, and is another text"),
        (["wait"], "long", "wait must be a duration, as P1DT02H00M00S, and is another text"),
        (["total"], 1.5, "total must be a decimal number, as a text, and is a number with a fraction"),
        (["total"], "x", "total must be a decimal number, as a text, and is another text"),
        (["rate"], True, "rate must be a number, and is true or false"),
        (["rate"], 10**400, "rate must be a number, and is a whole number"),
        (["lines", 0, "quantity"], "3", "lines[0].quantity must be a whole number, and is a text"),
        (
            ["lines", 0, "parts", 0, "quantity"],
            True,
            "lines[0].parts[0].quantity must be a whole number, and is true",
        ),
        (["lines", 0, "parts"], {}, "lines[0].parts must be a list, and is an object"),
        (["colour"], "secret", "colour must be one of the values of Colour"),
        (["size"], True, "size must be one of the values of Size"),
        (["way"], True, "way must be one of 'mail', 1"),
        (["tags"], [[1]], "tags[0] must be a text, and is a list"),
        (["pair"], [1], "pair must be a list of 2, and is one of 1"),
        (["pair"], [1, 2], "pair[1] must be a text, and is a whole number"),
        (["by_number"], {"x": {"sku": "tea"}}, "by_number.x must be a key that is a whole number"),
        (["by_number"], {"1": {}}, "by_number['1'].sku is missing"),
        (["by_number"], {"1": None}, "by_number['1'] must be an object, and is null"),
        (["note"], 3, "note must be a text, and is a whole number"),
        (["address", "city"], ..., "address.city is missing"),
        (["customer", "tags"], ["secret"], "customer.tags[0] does not fit: Input should be a valid integer"),
        (["customer", "creditLimit"], ..., "customer.creditLimit does not fit: Field required"),
        (["parcel", "weights"], [1, "x"], "parcel.weights[1] does not fit: Expected `int`, got `str`"),
        (["parcel", "at"], ..., "parcel does not fit: Object missing required field `at`"),
    ],
)
def test_a_body_that_does_not_fit_names_the_field_and_shows_no_value(
    path: list[Any], value: Any, words: str
) -> None:
    body = deepcopy(stored(ORDER))
    part = body
    for step in path[:-1]:
        part = part[step]
    if value is ...:
        del part[path[-1]]
    else:
        part[path[-1]] = value

    with pytest.raises(UnfitBody) as raised:
        reader(Order)(body)

    assert str(raised.value).startswith(f"The body does not fit Order: {words}")
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


Animal = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("odd")


@pytest.mark.parametrize(
    ("annotation", "body", "words"),
    [
        (Line, [], "The body does not fit Line: it must be an object, and is a list."),
        (Even, {"number": 1}, "The body does not fit Even: it is refused by Even: odd."),
        (list[Line], [{"sku": "tea"}, {}], "The body does not fit list[test_readers.Line]: [1].sku is missing."),
        (dict[str, int], {"a b": "x"}, "['a b'] must be a whole number, and is a text."),
        (int | str, None, "The body does not fit int | str: it fits no part of int | str."),
        (set[Any], [[]], "it has a part that cannot be in a set."),
        (bytes, "x", "The body does not fit bytes: it must be bytes, and is a text."),
        (Customer, b"x", "The body does not fit Customer: it is bytes, and no JSON."),
        (Annotated[int, pydantic.Field(gt=0)], 0, "it does not fit: Input should be greater than 0."),
        (Annotated[int, msgspec.Meta(gt=0)], 0, "it does not fit: Expected `int` >= 1."),
        # Without the value, which both libraries would quote.
        (
            Annotated[Colour, msgspec.Meta()],
            "x",
            "does not fit: Invalid enum value: not one of the possible ones.",
        ),
        (Animal, {"kind": "x"}, "does not fit: Input tag: not one of the possible ones."),
    ],
)
def test_a_body_as_a_whole_that_does_not_fit_says_so(annotation: Any, body: Any, words: str) -> None:
    with pytest.raises(UnfitBody) as raised:
        reader(annotation)(body)

    assert str(raised.value).replace(f"{__name__}.", "test_readers.").endswith(words)


def test_a_body_nested_too_deep_does_not_fit() -> None:
    body: Any = {"sku": "tea"}
    for _ in range(sys.getrecursionlimit()):
        body = {"sku": "tea", "parts": [body]}

    with pytest.raises(UnfitBody, match="nested too deep"):
        reader(Line)(body)


def test_the_first_part_of_a_union_that_fits_is_used() -> None:
    read = reader(list[int | UUID | Line | None])

    assert read([1, str(UUID(int=7)), {"sku": "tea"}, None]) == [1, UUID(int=7), Line(Sku("tea")), None]


class Unknown:
    """No type of bodies."""


class Marked(TypedDict, Generic[T]):
    value: T


@dataclass
class WithInitVar:
    a: int
    b: InitVar[int]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Unknown, "has the annotation Unknown, which no body can become; use a dataclass"),
        (User, "has the annotation User, which no body can become"),
        (list[Unknown], "has the annotation Unknown"),
        (dict[str, bytes], "has the annotation bytes"),
        (T, "has the annotation ~T"),
        (Point, "has the annotation Point, and JSON has no such value as ORIGIN"),
        (WithInitVar, "has the annotation WithInitVar, whose InitVar 'b' is in no body"),
        ("1 +", "which names no type"),
        ("3", "has the annotation 3, which no body can become"),
    ],
)
def test_a_type_that_no_body_can_become_is_refused_at_the_declaration(annotation: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        reader(annotation)


@pytest.mark.parametrize("value", [{UUID(int=7): 1}, Unknown(), {"a": b"x"}, {Point.ORIGIN: 1}, ORDER.__class__])
def test_what_has_no_form_in_json_is_refused_when_it_is_published(value: Any) -> None:
    with pytest.raises(BodyNotSerialisable, match="The body cannot be written as JSON"):
        encode_body(value)


def test_a_dataclass_of_plain_types_needs_no_library_and_imports_none() -> None:
    program = (
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings.sqlite'\n"
        "import django; django.setup()\n"
        "import sys; sys.modules.update(pydantic=None, msgspec=None)\n"
        "from dataclasses import dataclass; from django_mq.api import consumer, ReceivedMessage\n"
        "from django_mq.delivery.codecs import decode_body, encode_body\n"
        "@dataclass\nclass Line:\n    sku: str\n    sizes: set[int]\n"
        "from django_mq.typed.signature import signature_of\n"
        "def handle(line: Line) -> None: ...\n"
        "assert signature_of(handle).read(decode_body(*encode_body(Line('tea', {1})))) == Line('tea', {1})\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_message_is_no_body() -> None:
    assert all(
        signature_of(function) is None
        for function in (print, lambda message: message, of_a_message, of_anything, of_a_message_or_nothing)
    )


def of_a_message(message: ReceivedMessage) -> None:
    """Take a message."""


def of_anything(message: Any) -> None:
    """Take anything."""


def of_a_message_or_nothing(message: ReceivedMessage | None) -> None:
    """Take a message or nothing."""
