"""The modes that an operator can set for a worker."""

from enum import StrEnum


class WorkerMode(StrEnum):
    """Claim messages; claim no more; stop when no message is held."""

    WORK = "work"
    QUIET = "quiet"
    STOP = "stop"
