"""What an extension adds to django_mq, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_mq.engine.options import Option
    from django_mq.seams.middleware import AttemptMiddleware, PublishingMiddleware


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """A part of the maintenance, which workers do in the background."""

    #: Names the duty in figures and logs.
    name: str
    #: Is called with a store and with ``limit``. It changes no more rows than that, in a few short statements, and
    #: returns how many, or several such numbers by name. It may run in several processes at once, and again at any
    #: time.
    run: Callable[[Any, int], int | Mapping[str, int]]
    #: A duty that changes as many rows as this runs again at the next heartbeat.
    limit: int = 1000
    #: The duty runs once in each interval of the clock, and when a process begins; 0: in every round.
    interval_seconds: float = 0
    #: Whether only the leader runs it. The other workers run all other duties in some rounds.
    leader_only: bool = False
    #: Whether a change of it may make messages ready, so that idle workers get hints.
    announces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What one package adds. ``DJANGO_MQ["EXTENSIONS"]`` names such values by their dotted paths.

    Every field but the name is a tuple, and empty by default. The parts of django_mq that read a field run the
    values of all extensions, in the order of the setting.
    """

    #: Says in errors and figures which extension is meant: an identifier that no other extension has.
    name: str
    #: What to do in the maintenance, besides the duties of django_mq.
    duties: tuple[Duty, ...] = ()
    #: Functions around publishing, the first one outermost.
    publishing: tuple[PublishingMiddleware, ...] = ()
    #: Functions around an attempt, the first one outermost.
    attempts: tuple[AttemptMiddleware, ...] = ()
    #: Options of queues and handlers (arguments of ``@consumer``), and keys of ``DJANGO_MQ``. Their names begin
    #: with the name of the extension and "_"; names of settings are in capitals. ``Option.value_in`` reads them.
    queue_options: tuple[Option, ...] = ()
    handler_options: tuple[Option, ...] = ()
    settings: tuple[Option, ...] = ()
