"""The user of an act: a user of the site, or a user of the operating system with the host."""

from __future__ import annotations

import getpass
import os
import socket
from typing import NamedTuple

from django_mq.acts.models import Act


class Operator(NamedTuple):
    """The user of an act, and the way."""

    name: str
    interface: Act.Interface


def of_site(user_name: str) -> Operator:
    return Operator(user_name, Act.Interface.ADMIN)


def of_command() -> Operator:
    """Return the user of this process, and the host: ``deploy@web-1``."""
    return Operator(f"{_user()}@{socket.gethostname()}", Act.Interface.COMMAND)


def _user() -> str:
    """Return the user of the process, and not what the environment says; its number if it has no name."""
    try:
        import pwd  # noqa: PLC0415 - not on Windows
    except ImportError:
        return getpass.getuser()
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
