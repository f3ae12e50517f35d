"""The error of the demo."""


class DemoFailed(Exception):  # noqa: N818 - says what happened
    """The demo cannot continue, or its result is wrong; the message says why."""
