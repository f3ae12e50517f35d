"""How long a worker knows, without asking, that its lease is its own. Seconds of one clock."""


def is_certain(confirmed_at: float, now: float, deadline_seconds: float) -> bool:
    """Whether nobody else can have taken the messages of a session that was last renewed at ``confirmed_at``.

    A worker that was stopped, or cut off, for longer than the deadline must have its lease confirmed
    before it begins a message.
    """
    return now - confirmed_at < deadline_seconds
