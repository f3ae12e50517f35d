"""The sidecar: renew a session while the worker's process runs and its heartbeat does not.

    python -m django_mq.delivery.consumer.sidecar_process

It reads one line of JSON from its standard input, then a byte for each sign of life, and ends with the input. It
connects to the database only while the worker is silent. It never renews for a process that is stopped or dead,
never for longer than ``SIDECAR_SECONDS``, and never after the session's deadline: only the worker can revive that.

It loads no app of the project, which would cost the project's memory and start-up a second time. The database's
settings come through the pipe, so that no list of processes shows the password.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings

from django_mq.delivery.consumer.lease import now
from django_mq.engine.decisions.session import SILENT_SHARE, is_silent, may_be_prolonged
from django_mq.errors import StoreError
from django_mq.outages import Outage
from django_mq.stores.registry import private_store

if TYPE_CHECKING:
    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.delivery")

INPUT = 0
ALIAS = "default"
#: How often in a deadline a silent worker's session is renewed, and a failed renewal tried again.
RENEWALS, TRIES = 3, 12


def state_of(pid: int) -> str:
    """Return the letter that Linux has for a process's state, empty if there is no such process."""
    try:
        # The name of the program stands in parentheses before it, and may have some itself.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


class SidecarProcess:
    """Stands in for one worker."""

    def __init__(self, store: Store, order: dict[str, Any]) -> None:
        self._store = store
        self._session_id: int = order["session"]
        self._worker: int = order["worker"]
        self._deadline_seconds: float = order["settings"]["SESSION_SECONDS"]
        self._silent_after: float = self._deadline_seconds * SILENT_SHARE
        self._most_seconds: float = order["most_seconds"]
        self._heard_at = now()
        self._renewing = False
        # In a process of its own, which knows the database under another alias.
        self._outage = Outage("For the sidecar, the database", logger)
        #: Whether the session is gone: nothing to renew until the worker is heard again.
        self._refused = False

    def run(self) -> None:
        """Stand by until the worker closes the pipe, or ends."""
        wait = self._silent_after
        while os.getppid() == self._worker:
            readable, _, _ = select.select([INPUT], [], [], wait)
            if not readable:
                wait = self._stand_in()
            elif os.read(INPUT, 65536):
                wait = self._stand_down()
            else:
                return

    def _stand_down(self) -> float:
        """Note that the worker was heard; return how long to wait for the next sign, in seconds."""
        self._heard_at, self._refused = now(), False
        if self._renewing:
            self._renewing = False
            self._store.close()
        return self._silent_after

    def _stand_in(self) -> float:
        """Renew if the worker is silent and alive; return in how many seconds to look again."""
        silent_seconds = now() - self._heard_at
        if not is_silent(silent_seconds, self._deadline_seconds):
            return self._silent_after - silent_seconds + 0.001
        if not self._refused and may_be_prolonged(
            silent_seconds,
            state_of(self._worker),
            deadline_seconds=self._deadline_seconds,
            most_seconds=self._most_seconds,
        ):
            return self._prolong(silent_seconds)
        return self._deadline_seconds / TRIES

    def _prolong(self, silent_seconds: float) -> float:
        if not self._renewing:
            self._renewing = True
            logger.warning(
                "The heartbeat of session %s has not run for %.1f s: the sidecar renews it, for %s s at most",
                self._session_id,
                silent_seconds,
                self._most_seconds,
            )
        try:
            kept = self._store.sessions.prolong(self._session_id, deadline_seconds=self._deadline_seconds)
        except StoreError as error:
            self._outage.failed(self, error)
            self._store.close()
            return self._deadline_seconds / TRIES
        self._outage.succeeded(self)
        self._refused = not kept
        return self._deadline_seconds / RENEWALS


def main() -> None:
    """Read the order and stand by."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The worker may work for long after such a signal; the sidecar ends with it.
        signal.signal(number, signal.SIG_IGN)
    with open(INPUT, "rb", buffering=0, closefd=False) as stream:
        line = stream.readline()
    if not line.endswith(b"\n"):
        return
    order = json.loads(line)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    settings.configure(
        DATABASES={ALIAS: order["database"]}, DJANGO_MQ=order["settings"], USE_TZ=True, LOGGING_CONFIG=None
    )
    django.setup(set_prefix=False)  # without it Django warns at each connection
    with closing(private_store(ALIAS)) as store:
        SidecarProcess(store, order).run()


if __name__ == "__main__":
    main()
