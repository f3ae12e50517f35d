"""How a demo fails."""


class DemoFailed(Exception):  # noqa: N818 - says what happened
    """The demo cannot go on, or its result is wrong; the message says why."""
