"""How long a worker knows, without asking, that it has its lease, and when another process renews it.

All times are seconds of one clock.
"""

#: The share of a deadline after which a worker counts as silent. A heartbeat that waits for a lock waits for less.
SILENT_SHARE = 1 / 4
#: The states of a process, as Linux names them, in which it works: running, sleeping, waiting for a device, idle.
#: The others are stopped (T), traced (t), zombie (Z) and dead (X).
WORKING = frozenset("RSDI")
#: A running operation without progress for so many seconds has lost its process.
STALLED_SECONDS = 60.0


def is_certain(confirmed_at: float, now: float, deadline_seconds: float) -> bool:
    """Whether no other worker can have taken the messages of a session that was last renewed at ``confirmed_at``.

    A worker that was stopped, or cut off, for longer than the deadline must have its lease confirmed
    before it begins a message.
    """
    return now - confirmed_at < deadline_seconds


def is_silent(silent_seconds: float, deadline_seconds: float) -> bool:
    """Whether a worker that was last heard so long ago cannot be relied on to renew its lease in time."""
    return silent_seconds >= deadline_seconds * SILENT_SHARE


def may_be_prolonged(silent_seconds: float, state: str, *, deadline_seconds: float, most_seconds: float) -> bool:
    """Whether another process may renew the lease of a silent worker whose process is in this state.

    Not for longer than ``most_seconds``: a worker that never comes back must not keep its messages.
    """
    return is_silent(silent_seconds, deadline_seconds) and silent_seconds <= most_seconds and state in WORKING
