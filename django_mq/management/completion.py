"""Queue names for the shell: Django's own completion script completes them with the options.

That script runs ``manage.py`` with DJANGO_AUTO_COMPLETE set, and Django prints every option string of
the parser that fits. So, when it is asked for, and only then, the parser has a nameless option spelt
like each queue. Nothing is installed beyond Django's script, and no parsing is changed.
"""

from __future__ import annotations

import os
import threading
from argparse import SUPPRESS, Action, _SubParsersAction
from typing import TYPE_CHECKING, Any

from django.db import connections

from django_mq import conf
from django_mq.diagnosis.messages.queue_names import names_of_queues

if TYPE_CHECKING:
    from argparse import ArgumentParser

#: How long somebody who pressed TAB waits for the database, in seconds.
PATIENCE = 1.0


class Offered(Action):
    """A queue's name, in the shape of an option that takes nothing."""

    def __init__(self, name: str) -> None:
        super().__init__([name], SUPPRESS, nargs=0)

    def __call__(self, *_: Any, **__: Any) -> None:
        """Parsers never meet it: a parser that offers names is not used for parsing."""


def offer_queues(parser: ArgumentParser) -> None:
    """Have the shell complete queue names, if it asks and the command takes one."""
    if "DJANGO_AUTO_COMPLETE" not in os.environ:
        return
    if _takes_a_queue(parser):
        # argparse has no public list of them, and Django's completion reads this one.
        parser._actions.extend(map(Offered, _names()))  # noqa: SLF001


def _takes_a_queue(parser: ArgumentParser) -> bool:
    for action in parser._actions:  # noqa: SLF001
        if action.metavar == "QUEUE":
            return True
        if isinstance(action, _SubParsersAction) and any(map(_takes_a_queue, action.choices.values())):
            return True
    return False


def _names() -> list[str]:
    """Return the names a shell can take as they are; none if the database cannot be used."""
    found: list[str] = []
    # A driver that waits for a dead server cannot be interrupted, only left behind.
    asking = threading.Thread(target=_ask, args=(found,), daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return [name for name in list(found) if name.isprintable() and not set(name) & set(" '\"\\$`;&|<>()*?")]


def _ask(found: list[str]) -> None:
    try:
        alias = conf.load().DATABASE
        found.extend(names_of_queues(alias))
        connections[alias].close()
    except Exception:  # noqa: BLE001 - whatever is wrong, a TAB is no place to say it
        return
