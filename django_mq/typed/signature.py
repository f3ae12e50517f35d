"""What the parameters of a handler's function ask for: the message, or its body as an object.

The first positional parameter gets the message if it has no annotation, or the annotation of a message. Otherwise
it gets the body, as an object of its annotation. A second parameter with the annotation ``ReceivedMessage`` gets
the message; then the first one gets the body, with or without an annotation. A handler of many has lists of them.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from django_mq.delivery.codecs import ReceivedMessage
from django_mq.errors import ConfigurationError, UnfitBody
from django_mq.typed.misfit import Misfit
from django_mq.typed.readers import BYTES, name_of, no_json, reader_of, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import Parameter

    from django_mq.typed.readers import Reader

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: For modules that import it, or the module that has it, for the type checker only.
KNOWN = {"ReceivedMessage": ReceivedMessage}
OF_A_MODULE = re.compile(r"[\w.]+\.ReceivedMessage")


class Signature:
    """Makes the arguments of one function.

    A name that is missing when the handler is declared is looked up later.
    """

    def __init__(
        self, function: Callable[..., Any], first: Parameter, *, with_message: bool, many: bool = False
    ) -> None:
        self._function = function
        self._first = first
        self._many = many
        self.number = 2 if with_message else 1
        self._annotation: Any = None
        self._reader: Reader | None = None
        #: Whether the function gets the message in the place of the body.
        self._is_plain = False

    def resolve(self) -> None:
        """Look up the annotation. Raises NameError while a name is missing, and TypeError if it cannot be used."""
        self._annotation = _resolved(self._function, self._first, many=self._many)
        is_message = is_of_message(self._annotation)
        self._is_plain = is_message and self.number == 1
        if self.number == 2 and is_received_message(self._annotation):
            raise TypeError("asks for the message twice; name the type of the body first")
        self._reader = same if is_message else reader_of(self._annotation)

    def check(self) -> None:
        """Raise TypeError, with the end of a sentence, if the annotation cannot be used."""
        if self._reader is None:
            try:
                self.resolve()
            except NameError as error:
                raise TypeError(
                    f"has the annotation {self._first.annotation!r}, which cannot be resolved: {error}. Import the"
                    " name where the annotation is written, and not for the type checker only"
                ) from None

    def _resolve_late(self) -> None:
        try:
            self.check()
        except TypeError as error:
            raise ConfigurationError(f"The handler {name_of(self._function)} {error}.") from None

    @property
    def is_plain(self) -> bool:
        """Whether the function is called with the message alone."""
        return self._is_plain

    def read(self, body: Any, /) -> Any:
        """Return the body as an object of the annotation. Raises UnfitBody."""
        if self._reader is None:
            self._resolve_late()
        reader: Any = self._reader
        if isinstance(body, bytes) and reader not in (same, BYTES):
            reader = no_json
        try:
            return reader(body)
        except Misfit as error:
            raise UnfitBody(f"The body does not fit {name_of(self._annotation)}: {error}.") from None
        except RecursionError:
            raise UnfitBody(f"The body does not fit {name_of(self._annotation)}: it is nested too deep.") from None

    def __call__(self, message: ReceivedMessage, /) -> tuple[Any, ...]:
        """Return the arguments for a message. Raises UnfitBody."""
        body = message if self._is_plain else self.read(message.body)
        return (body, message) if self.number == 2 else (body,)


def signature_of(function: Callable[..., Any], many: bool = False) -> Signature | None:
    """Return how to call a function with a body; None for a function that is called with the message alone.

    A handler of ``many`` gets lists of them.

    Raises TypeError, with the end of a sentence, if no body can become what the annotation says.
    """
    annotated = _annotated(function)
    try:
        # The arguments of a wrapper count, and those of the wrapped function if the wrapper takes any.
        parameters = list(inspect.signature(annotated, follow_wrapped=False).parameters.values())
    except (TypeError, ValueError):
        return None  # no function, or a built-in one
    positional = [each for each in parameters if each.kind in POSITIONAL]
    if not positional:
        return None
    with_message = len(positional) > 1 and _asks_for_message(annotated, positional[1], many=many)
    signature = Signature(annotated, positional[0], with_message=with_message, many=many)
    try:
        signature.resolve()
    except NameError:
        return signature
    return None if signature.is_plain else signature


def _annotated(function: Any) -> Any:
    """Return the function whose annotations count."""
    while True:
        try:
            first = next(iter(inspect.signature(function, follow_wrapped=False).parameters.values()), None)
        except (TypeError, ValueError):
            return function
        if first is None or first.kind is not first.VAR_POSITIONAL or not hasattr(function, "__wrapped__"):
            return function
        function = function.__wrapped__


def _asks_for_message(function: Any, parameter: Parameter, *, many: bool) -> bool:
    try:
        annotation = _resolved(function, parameter, many=many)
    except (NameError, TypeError):
        return False
    return is_received_message(annotation)


def is_received_message(annotation: Any) -> bool:
    """Return whether an annotation asks for the message by its name, perhaps as one part of a union."""
    kinds = (annotation, *_members(annotation))
    return any(isinstance(kind, type) and issubclass(kind, ReceivedMessage) for kind in kinds)


def _resolved(function: Any, parameter: Parameter, *, many: bool) -> Any:
    """Return the annotation of a parameter; for a list of ``many``, that of an item.

    Raises NameError if a name in it is missing, and TypeError if it is no list.
    """
    annotation = _looked_up(function, parameter)
    return _item_of(annotation) if many else annotation


def _item_of(annotation: Any) -> Any:
    """Return the annotation of the items of a list. Raises TypeError."""
    if annotation in (inspect.Parameter.empty, Any, object, list, Sequence):
        return inspect.Parameter.empty
    if typing.get_origin(annotation) in (list, Sequence):
        return typing.get_args(annotation)[0]
    raise TypeError(f"takes many messages, and has the annotation {name_of(annotation)}; write it as a list[...]")


def _looked_up(function: Any, parameter: Parameter) -> Any:
    if not _has_text(parameter.annotation):
        return parameter.annotation
    holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        # functools.wraps copies the annotations of the wrapped function.
        hints = typing.get_type_hints(holder, KNOWN | _names_of(inspect.unwrap(function)), include_extras=True)
    except (NameError, AttributeError) as error:
        if OF_A_MODULE.fullmatch(str(parameter.annotation)):
            return ReceivedMessage
        raise NameError(str(error)) from None
    except (SyntaxError, TypeError) as error:
        raise TypeError(f"has the annotation {parameter.annotation!r}, which names no type: {error}") from None
    return hints[parameter.name]


def _has_text(annotation: Any) -> bool:
    """Return whether an annotation, or a part of it, is a text."""
    if isinstance(annotation, str | typing.ForwardRef):
        return True
    return any(map(_has_text, typing.get_args(annotation))) and typing.get_origin(annotation) is not typing.Literal


def _names_of(function: Any) -> dict[str, Any]:
    """Return the names of the module in which a function is defined."""
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, type):
        function = function.__init__  # type: ignore[misc]  # the signature of a class is that of its __init__
    elif not hasattr(function, "__globals__"):
        function = getattr(function, "__func__", type(function).__call__)
    names: dict[str, Any] = getattr(function, "__globals__", {})
    return names


def is_of_message(annotation: Any) -> bool:
    """Return whether a parameter with this annotation gets the message."""
    if annotation in (inspect.Parameter.empty, Any, object):
        return True
    if typing.get_origin(annotation) is not None:
        return any(part is not Any and is_of_message(part) for part in _members(annotation))
    if not isinstance(annotation, type):
        return False
    is_protocol = getattr(annotation, "_is_protocol", False)
    return is_protocol or annotation in ReceivedMessage.__mro__ or issubclass(annotation, ReceivedMessage)


def _members(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union; of Annotated, what is annotated."""
    if hasattr(annotation, "__metadata__"):
        return (annotation.__origin__,)
    is_union = typing.get_origin(annotation) in (typing.Union, type(int | str))
    return typing.get_args(annotation) if is_union else ()
