"""A temporary directory that a later run removes if its own run was killed before it could.

The owner holds a lock on a file in it. The system drops the lock when the owner dies,
however it dies, so a directory with a free lock is abandoned.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

#: A socket's path may have about 100 bytes, and macOS spends half of them on its temporary directory.
LONGEST_PARENT = 60


class Directory:
    """A new directory for one server."""

    def __init__(self, name: str) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=f"django_mq-{name}-", dir=parent()))
        unlocked = self.path / "owner.new"
        self._lock = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Under its name only when locked: another run may be looking for abandoned ones right now.
        unlocked.rename(self.path / "owner")

    def remove(self) -> None:
        """Remove the directory with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.abandon()

    def abandon(self) -> None:
        """Let go of the directory as a dying process does."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def parent() -> Path:
    """Return where the directories are made."""
    usual = tempfile.gettempdir()
    return Path(usual if len(usual) <= LONGEST_PARENT else "/tmp")


def remove_abandoned() -> None:
    """Remove the directories of runs that died."""
    for owner in parent().glob("django_mq-*/owner"):
        if is_abandoned(owner):
            shutil.rmtree(owner.parent, ignore_errors=True)


def is_abandoned(owner: Path) -> bool:
    """Return whether no process holds the lock."""
    try:
        lock = os.open(owner, os.O_RDONLY)
    except OSError:
        return False  # gone meanwhile, or another user's
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)
