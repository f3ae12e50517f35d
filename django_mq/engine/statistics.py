"""What has passed through a queue, and how full it has been."""


class Statistics:
    """The counters of one queue. Removal for any reason counts as ``dequeued``.

    Bytes are those of the bodies.
    """

    __slots__ = (
        "accepted",
        "dequeued",
        "dequeued_bytes",
        "enqueued",
        "enqueued_bytes",
        "expired",
        "killed",
        "most_depth",
        "most_depth_bytes",
        "most_ready",
        "replaced",
    )

    def __init__(self) -> None:
        self.enqueued = 0
        self.enqueued_bytes = 0
        self.dequeued = 0
        self.dequeued_bytes = 0
        #: Removed because a consumer was done with them.
        self.accepted = 0
        #: Removed because their time had passed.
        self.expired = 0
        #: Removed as dead letters, by a purge or by an operator.
        self.killed = 0
        #: Removed in favour of others: by a ring, or a later value of their key.
        self.replaced = 0
        self.most_depth = 0
        self.most_depth_bytes = 0
        self.most_ready = 0

    def left(self, size: int) -> None:
        """A message was removed."""
        self.dequeued += 1
        self.dequeued_bytes += size

    @property
    def depth(self) -> int:
        """How many messages are here, in whatever state."""
        return self.enqueued - self.dequeued

    @property
    def depth_bytes(self) -> int:
        """How many bytes are here."""
        return self.enqueued_bytes - self.dequeued_bytes

    def reset(self, ready: int) -> None:
        """Count from zero; what is here stays, and is the most there has been."""
        depth, size_bytes = self.depth, self.depth_bytes
        self.__init__()  # type: ignore[misc]
        # What is here counts as neither enqueued nor dequeued, but both must differ by it.
        self.dequeued, self.dequeued_bytes = -depth, -size_bytes
        self.most_depth, self.most_depth_bytes, self.most_ready = depth, size_bytes, ready
