"""Functions that make objects of decoded bodies, one for each annotation.

A reader never calls anything that the body names. It does not guess: a text is not made a number, nor a number a
text. Keys that the annotation does not have are left out, so that a publisher may add one before the handlers know
it. An error names the place in the body and never shows a value, which may be secret.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
from collections import abc
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from django.utils.dateparse import parse_duration

from django_mq.typed import models
from django_mq.typed.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Reader: TypeAlias = "Callable[[Any], Any]"


#: What JSON calls the types of decoded bodies.
KINDS: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number with a fraction",
    bool: "true or false",
    NoneType: "null",
}


def kind_of(value: Any) -> str:
    """Return what JSON calls a decoded value."""
    return KINDS.get(type(value), type(value).__name__)


def _wrong(value: Any, wanted: str) -> Misfit:
    return Misfit(f"must be {wanted}, and is {kind_of(value)}")


def same(value: Any) -> Any:
    """Return a value as it is."""
    return value


def no_json(_: bytes) -> Any:
    """Raise Misfit."""
    raise Misfit("is bytes, and no JSON")


def _exactly(kind: type, words: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is kind:
            return value
        raise _wrong(value, words)

    return read


def _float(value: Any) -> float:
    if type(value) is float or type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    raise _wrong(value, "a number")


def _made_of_text(make: Callable[[Any], Any], words: str, also: type = str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is str or type(value) is also:
            try:
                return make(value)
            except (ValueError, ArithmeticError):
                raise Misfit(f"must be {words}, and is another text") from None
        raise _wrong(value, words)

    return read


def _duration(text: str) -> dt.timedelta:
    found: dt.timedelta | None = parse_duration(text)
    if found is None:
        raise ValueError(text)
    return found


#: Types without parts.
PLAIN: dict[Any, Reader] = {
    Any: same,
    object: same,
    None: _exactly(NoneType, "null"),
    **{kind: _exactly(kind, words) for kind, words in KINDS.items() if kind in (str, int, bool, NoneType)},
    float: _float,
    # A float has lost the last digits of an amount of money.
    Decimal: _made_of_text(Decimal, "a decimal number, as a text", also=int),
    UUID: _made_of_text(UUID, "a UUID"),
    dt.datetime: _made_of_text(dt.datetime.fromisoformat, "a date and time, as 2031-01-31T09:00:00+01:00"),
    dt.date: _made_of_text(dt.date.fromisoformat, "a date, as 2031-01-31"),
    dt.time: _made_of_text(dt.time.fromisoformat, "a time, as 09:00:00"),
    dt.timedelta: _made_of_text(_duration, "a duration, as P1DT02H00M00S"),
}
#: JSON has no bytes: only a whole body can be bytes.
BYTES = _exactly(bytes, "bytes")
#: Types with parts, and what is made.
CONTAINERS: dict[type, Any] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), dict),
    frozenset: frozenset,
    tuple: tuple,
}
#: Marks of the keys of a TypedDict; typing_extensions has the same names.
MARKS = {"Required", "NotRequired", "ReadOnly"}


def reader_of(annotation: Any) -> Reader:
    """Return the reader of an annotation.

    Raises TypeError, with the end of a sentence, if no body can become such an object, and NameError while the
    annotation of a part cannot be resolved.
    """
    return BYTES if annotation is bytes else _reader_of(annotation, {})


def _reader_of(annotation: Any, begun: dict[Any, Reader]) -> Reader:
    forms = (_by_a_library, _of_another_name, _without_parts, _alternatives, _container, _enum, _path, _object)
    for form in forms:
        if (found := form(annotation, begun)) is not None:
            return found
    raise TypeError(
        f"has the annotation {name_of(annotation)}, which no body can become; use a dataclass, a TypedDict, a"
        " model of pydantic or msgspec, or plain types, or ReceivedMessage for the message itself"
    )


def _by_a_library(annotation: Any, _: dict[Any, Reader]) -> Reader | None:
    return models.reader_of(annotation)


def _of_another_name(annotation: Any, begun: dict[Any, Reader]) -> Reader | None:
    """Return the reader of what is in Annotated, a NewType or a type alias."""
    if hasattr(annotation, "__metadata__"):
        return _reader_of(annotation.__origin__, begun)
    for name in ("__supertype__", "__value__"):
        if not isinstance(annotation, type) and hasattr(annotation, name):
            return _reader_of(getattr(annotation, name), begun)
    return None


def _without_parts(annotation: Any, _: dict[Any, Reader]) -> Reader | None:
    return PLAIN.get(annotation) if isinstance(annotation, abc.Hashable) else None


def _alternatives(annotation: Any, begun: dict[Any, Reader]) -> Reader | None:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return _literal(parts)
    if origin is typing.Union or origin is UnionType:
        return _union([_reader_of(part, begun) for part in parts], annotation)
    return None


def name_of(annotation: Any) -> str:
    """Return an annotation as your code writes it."""
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation).removeprefix("typing.")


def is_typed_dict(kind: Any) -> bool:
    """Return whether this is a TypedDict of typing or typing_extensions."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__total__")


def _fields(kind: Any) -> Iterable[tuple[str, Any, bool]]:
    """Yield the fields that make a dataclass, and whether each is required."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if late := [name for name, hint in hints.items() if isinstance(hint, dataclasses.InitVar)]:
        raise TypeError(f"has the annotation {name_of(kind)}, whose InitVar {late[0]!r} is in no body")
    for field in dataclasses.fields(kind):
        if field.init:
            needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            yield field.name, hints[field.name], needed


def _keys(kind: Any) -> Iterable[tuple[str, Any, bool]]:
    """Yield the keys of a TypedDict, and whether each is required."""
    for name, marked in typing.get_type_hints(kind, include_extras=True).items():
        # Where annotations are texts, Python does not see the marks when it makes the class.
        hint, needed = marked, name in kind.__required_keys__
        while (mark := getattr(typing.get_origin(hint), "_name", "")) in MARKS:
            needed = {"Required": True, "NotRequired": False}.get(mark, needed)
            [hint] = typing.get_args(hint)
        yield name, hint, needed


def _object(kind: Any, begun: dict[Any, Reader]) -> Reader | None:
    if not (is_typed_dict(kind) or (isinstance(kind, type) and dataclasses.is_dataclass(kind))):
        return None
    if kind not in begun:
        declared = _keys(kind) if is_typed_dict(kind) else _fields(kind)
        fields: list[tuple[str, Reader, bool]] = []
        begun[kind] = _made_of_object(kind, fields)  # before the fields, which may have its type
        fields += [(name, _reader_of(hint, begun), is_required) for name, hint, is_required in declared]
    return begun[kind]


def _made_of_object(kind: Any, fields: list[tuple[str, Reader, bool]]) -> Reader:
    make: Callable[..., Any] = dict if is_typed_dict(kind) else kind

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _wrong(value, "an object")
        found = {}
        for name, reader, is_required in fields:
            if name in value:
                try:
                    found[name] = reader(value[name])
                except Misfit as error:
                    raise error.below(name) from None
            elif is_required:
                raise Misfit("is missing", name)
        try:
            return make(**found)
        except (TypeError, ValueError) as error:
            raise Misfit(f"is refused by {kind.__name__}: {error}") from None

    return read


def _container(annotation: Any, begun: dict[Any, Reader]) -> Reader | None:
    origin = typing.get_origin(annotation) or annotation
    if not isinstance(origin, type) or origin not in CONTAINERS:
        return None
    parts = typing.get_args(annotation)
    readers = [_reader_of(part, begun) for part in parts if part is not Ellipsis]
    make = CONTAINERS[origin]
    if make is dict:
        read_key, read_value = readers or (same, same)
        return _dict(_key(parts[0], read_key) if parts else same, read_value)
    if make is tuple and parts and parts[-1] is not Ellipsis:
        return _tuple(readers)
    return _list(readers[0] if readers else same, make)


def _list(read: Reader, make: Callable[[Any], Any]) -> Reader:
    def read_all(value: Any) -> Any:
        if type(value) is not list:
            raise _wrong(value, "a list")
        found: list[Any] = []
        try:
            for part in value:
                found.append(read(part))  # noqa: PERF401 - its length says which part failed
        except Misfit as error:
            raise error.below(len(found)) from None
        try:
            return found if make is list else make(found)
        except TypeError:
            raise Misfit("has a part that cannot be in a set") from None

    return read_all


def _tuple(readers: list[Reader]) -> Reader:
    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(readers):
            raise Misfit(f"must be a list of {len(readers)}, and is {_length_of(value)}")
        found: list[Any] = []
        try:
            for reader, part in zip(readers, value, strict=True):
                found.append(reader(part))
        except Misfit as error:
            raise error.below(len(found)) from None
        return tuple(found)

    return read


def _length_of(value: Any) -> str:
    return f"one of {len(value)}" if type(value) is list else kind_of(value)


def _dict(read_key: Reader, read_value: Reader) -> Reader:
    def read(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise _wrong(value, "an object")
        found = {}
        for key, part in value.items():
            try:
                name = read_key(key)
                found[name] = read_value(part)
            except Misfit as error:
                raise error.below(key) from None
        return found

    return read


def _key(kind: Any, read: Reader) -> Reader:
    """Return the reader of a key, which JSON has as a text."""
    is_class = isinstance(kind, type)
    if is_class and issubclass(kind, float):
        return _made_of_text(lambda text: read(float(text)), "a key that is a number")
    if is_class and issubclass(kind, int):
        return _made_of_text(lambda text: read(int(text)), "a key that is a whole number")
    return read


def _literal(values: tuple[Any, ...]) -> Reader:
    stored = [each.value if isinstance(each, Enum) else each for each in values]

    def read(value: Any) -> Any:
        for each, written in zip(values, stored, strict=True):
            if written == value and type(written) is type(value):
                return each
        raise Misfit("must be one of " + ", ".join(map(repr, stored)))

    return read


def _path(kind: Any, _: dict[Any, Reader]) -> Reader | None:
    is_path = isinstance(kind, type) and issubclass(kind, PurePath)
    return _made_of_text(kind, "a path, as a text") if is_path else None


def _enum(kind: Any, _: dict[Any, Reader]) -> Reader | None:
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        return None
    for member in kind:
        if not isinstance(member.value, str | int | float | None):
            raise TypeError(f"has the annotation {name_of(kind)}, and JSON has no such value as {member.name}")

    def read(value: Any) -> Any:
        try:
            found = kind(value)
        except (ValueError, TypeError):
            pass
        else:
            if isinstance(value, bool) == isinstance(found.value, bool):  # 1 and True are equal
                return found
        raise Misfit(f"must be one of the values of {kind.__name__}")

    return read


def _union(readers: list[Reader], annotation: Any) -> Reader:
    null = PLAIN[NoneType]
    others = [reader for reader in readers if reader is not null]

    def read(value: Any) -> Any:
        if value is None and null in readers:
            return None
        for reader in others[:-1]:
            try:
                return reader(value)
            except Misfit:
                continue
        if len(others) == 1:
            return others[0](value)
        try:
            return others[-1](value)
        except Misfit:
            raise Misfit(f"fits no part of {name_of(annotation)}") from None

    return read
