"""What an extension adds to django_mq, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django_stubs_ext import StrOrPromise

    from django_mq.engine.decisions.ends import End, Ended
    from django_mq.engine.options import Option
    from django_mq.seams.arguments import Arguments
    from django_mq.seams.findings import Finding
    from django_mq.seams.limits import ClaimLimit
    from django_mq.seams.tiles import Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """A part of the maintenance, which workers do in the background."""

    #: Names the duty in figures and logs.
    name: str
    #: Is called with a store and with ``limit``. It changes no more rows than that, in a few short statements, and
    #: returns how many, or several such numbers by name. It may run in several processes at once, and again at any
    #: time.
    run: Callable[[Any, int], int | Mapping[str, int]]
    #: A duty that changes as many rows as this runs again after a moment.
    limit: int = 1000
    #: The duty runs once in each interval of the clock, and when a process begins; 0: in every round.
    interval_seconds: float = 0
    #: Whether only the leader runs it. The other workers run all other duties in some rounds.
    leader_only: bool = False
    #: Is asked with the store ten times a second, and returns whether to run now. It reads no database. The duty
    #: then runs in a thread apart from the others. None: it runs in the rounds.
    is_due: Callable[[Any], bool] | None = None
    #: Whether a change of it may make messages ready, so that idle workers get hints.
    announces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A part of the page of a queue, a message, or a finished message in the admin."""

    #: "queue", "message", or "history" for a message that has finished.
    page: str
    title: StrOrPromise
    #: Is called with the request and the row, and returns what to show; blank for no panel. The page escapes it,
    #: except what ``format_html`` and ``render_to_string`` return.
    content: Callable[[HttpRequest, Any], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Which ends of claims and messages an extension is told, in the transaction in which they end."""

    #: Stands in the rows of the messages: an identifier that no other listening has. Do not change it.
    name: str
    #: The ends that it is told.
    ends: frozenset[End]
    #: Is called with a ``stores.records.NewMessage`` that is about to be written, and returns whether to tell its
    #: ends. It is fast, and reads no database. None: messages are marked later, by ``Settlements.mark``.
    wants: Callable[[Any], bool] | None
    #: Is called with the store, whose transaction is open, and with what has ended. It may be called again with
    #: the same ends. What it has written is undone if it raises an exception.
    tell: Callable[[Any, Sequence[Ended]], None]
    #: Whether ``Ended.returned`` says what the handler has returned. If that is not JSON, or is too large, the
    #: message is dead.
    returns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchKeys:
    """Keys by which the search of the admin finds messages, live and past. Both functions read an index."""

    #: Is called with the alias and the words of the user: a value, or ``name:value``. Returns a query set of ids
    #: of messages, the newest first.
    find: Callable[[str, str], QuerySet[Any, UUID]]
    #: Is called with the alias and some ids. Returns the keys of each message that has some, as (name, value).
    of: Callable[[str, Collection[UUID]], Mapping[UUID, Sequence[tuple[str, str]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """Something that happened to a message, for the timeline of its page."""

    time: datetime
    #: What happened, for people; the page escapes it.
    words: str
    #: Whether it went wrong.
    bad: bool = False
    #: The queue in which it happened; blank if in none.
    queue: str = ""


#: The pages that have panels.
PAGES = ("queue", "message", "history")


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
    #: Objects around publishing and around attempts, the first one outermost: see ``seams.middleware``. They are
    #: inside of those that the setting ``MIDDLEWARE`` names.
    middleware: tuple[Any, ...] = ()
    #: Functions that are called with the function of each handler that is declared. They return what makes its
    #: arguments, or None for the message; the first one that returns something counts. They raise TypeError, with
    #: the end of a sentence, for a function that cannot be a handler.
    arguments: tuple[Callable[[Callable[..., Any], bool], Arguments | None], ...] = ()
    #: Functions that are called with each handler that is declared with options of extensions. They return it, or
    #: another one in its place, and raise TypeError, with the end of a sentence, if it cannot have them.
    handlers: tuple[Callable[[Any], Any], ...] = ()
    #: Functions that are called with the values in a body that Django's encoder does not know. They return such a
    #: value as JSON has it, or NotImplemented.
    encoders: tuple[Callable[[Any], Any], ...] = ()
    #: Functions that yield what is wrong in the database of an alias. ``mq_doctor`` prints all that they yield.
    #: ``mq_health``, the health page, the metrics and the overview of the admin, which ask every few seconds, show
    #: problems and notices.
    findings: tuple[Callable[[str], Iterable[Finding]], ...] = ()
    #: Parts of pages of the admin.
    panels: tuple[Panel, ...] = ()
    #: Functions that return figures for the first screen of the admin, of the database of an alias, in a statement
    #: or two. A figure that does not concern the site is left out. The page and, each minute, a worker call them.
    tiles: tuple[Callable[[str], Iterable[Tile]], ...] = ()
    #: Functions that are called with the store and with messages that it has just written to queues with an option
    #: that is ``at_publishing``, in the same transaction: what they write commits with the messages. A message
    #: that has replaced the body of another one, by their unique key, comes with the id of that one.
    written: tuple[Callable[[Any, Sequence[Any]], None], ...] = ()
    #: Functions that are called with a message, a fraction and a text when its handler reports its progress, in
    #: any thread and in event loops: they return at once. They raise what the handler gets for impossible values.
    progress: tuple[Callable[[Any, float, str], None], ...] = ()
    #: What finds messages by words, and names what an operator may look for.
    searches: tuple[SearchKeys, ...] = ()
    #: Functions that are called with the request, the alias, and the ids of a message: a Celery task that was
    #: retried has several. They return what happened to it, as far as the user of the request may know.
    events: tuple[Callable[[HttpRequest, str, Collection[UUID]], Iterable[MessageEvent]], ...] = ()
    #: Which ends of claims and messages to tell.
    ends: tuple[Listening, ...] = ()
    #: Limits of what may begin, which claims ask for each message: see ``seams.limits``.
    limits: tuple[ClaimLimit, ...] = ()
    #: Options of queues and handlers (arguments of ``@consumer``), and keys of ``DJANGO_MQ``. Their names begin
    #: with the name of the extension and "_"; names of settings are in capitals. ``Option.value_in`` reads them.
    queue_options: tuple[Option, ...] = ()
    handler_options: tuple[Option, ...] = ()
    settings: tuple[Option, ...] = ()
