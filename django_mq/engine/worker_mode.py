"""What an operator may tell a client of the queues to do."""

from enum import StrEnum


class WorkerMode(StrEnum):
    """Take messages; claim no more; end after what is held."""

    WORK = "work"
    QUIET = "quiet"
    STOP = "stop"
