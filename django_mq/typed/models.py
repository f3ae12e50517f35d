"""Models of pydantic and msgspec, which their own libraries read and write.

Nothing here imports a library before your annotation or your value is one of its models.
"""

from __future__ import annotations

import json
import re
import sys
from functools import lru_cache
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from django_mq.typed.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

#: What the libraries say of a value that is none of those expected. What follows would show it.
SHOWING = re.compile(r"^(Invalid (?:enum )?value|Input tag) .*", re.DOTALL)
#: How msgspec says where in the body it has found a mistake.
PLACE = re.compile(r"^(?P<words>.*) - at `(?P<key>key in )?\$\.?(?P<path>.*)`$", re.DOTALL)


def is_pydantic(kind: Any) -> bool:
    """Return whether a class is a model or a dataclass of pydantic."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def is_msgspec(kind: Any) -> bool:
    """Return whether a class is a Struct of msgspec."""
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def reader_of(annotation: Any) -> Callable[[Any], Any] | None:
    """Return a function that makes a model of a decoded body; None if the annotation is no model.

    Constraints of a library in ``Annotated[...]`` count as well.
    """
    origin = getattr(annotation, "__origin__", annotation) if not hasattr(annotation, "__metadata__") else None
    constraints = {type(each).__module__.partition(".")[0] for each in getattr(annotation, "__metadata__", ())}
    if is_pydantic(annotation) or is_pydantic(origin) or constraints & {"pydantic", "annotated_types"}:
        return _by_pydantic(annotation)
    if is_msgspec(annotation) or is_msgspec(origin) or "msgspec" in constraints:
        return _by_msgspec(annotation)
    return None


@lru_cache(maxsize=1024)
def _adapter(annotation: Hashable) -> Any:
    return import_module("pydantic").TypeAdapter(annotation)


def _by_pydantic(annotation: Any) -> Callable[[Any], Any]:
    adapter = _adapter(annotation)
    validation_error: type[ValueError] = import_module("pydantic").ValidationError

    def read(value: Any) -> Any:
        try:
            # As JSON, because a strict model takes a time or a set from JSON only.
            return adapter.validate_json(json.dumps(value))
        except validation_error as error:
            errors: Any = error
            first, *more = errors.errors(include_url=False, include_context=False, include_input=False)
            others = f" ({len(more)} more)" if more else ""
            raise Misfit(f"does not fit: {_hiding(first['msg'])}{others}", *first["loc"]) from None

    return read


def _by_msgspec(annotation: Any) -> Callable[[Any], Any]:
    msgspec = import_module("msgspec")
    try:
        msgspec.json.Decoder(annotation, dec_hook=_decoded)
    except TypeError as error:
        raise TypeError(f"has an annotation that msgspec refuses: {error}") from None

    def read(value: Any) -> Any:
        try:
            return msgspec.convert(value, annotation, dec_hook=_decoded)
        except msgspec.ValidationError as error:
            found = PLACE.match(str(error))
            words, path = (found["words"], found["path"]) if found else (str(error), "")
            raise Misfit(f"does not fit: {_hiding(words)}", *_steps(path)) from None

    return read


def _hiding(words: str) -> str:
    """Return what a library says without a value of the body, which may be secret."""
    return SHOWING.sub(r"\1: not one of the possible ones", words)


def _steps(path: str) -> list[str | int]:
    """Return the steps of a path of msgspec, such as ``lines[0].quantity``."""
    steps = re.findall(r"\[(\d+)\]|([^.\[\]]+|\[...\])", path)
    return [int(number) if number else name for number, name in steps]


def _decoded(kind: Any, value: Any) -> Any:
    """Return what msgspec does not make by itself."""
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(value)
    raise NotImplementedError(f"msgspec makes no {kind}.")


def encoded(value: Any, others: Callable[[Any], Any]) -> Any:
    """Return a model as JSON has it; NotImplemented for anything else. ``others`` encodes values that it has."""
    kind: Any = type(value)
    if is_pydantic(kind):
        return _adapter(kind).dump_python(value, mode="json", by_alias=True, round_trip=True)
    if is_msgspec(kind):
        return import_module("msgspec").to_builtins(value, enc_hook=others, str_keys=True)
    return NotImplemented
