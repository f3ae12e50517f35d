"""Nothing is delivered before enough consumers are there (Artemis' start conditions)."""

from django_mq.engine.timeline import UNTOLD


class Gate:
    """Opens with the ``consumers``-th consumer, or ``delay`` seconds after the first.

    It closes when the last one leaves, and does not open again while anything is still claimed.
    """

    __slots__ = ("_consumers", "_delay", "is_open", "opens_at")

    def __init__(self, consumers: int = 0, delay: float | None = None) -> None:
        self._consumers = consumers
        self._delay = delay
        self.is_open = not self.guards
        #: When it opens by itself; None: not by itself.
        self.opens_at: float | None = None

    @property
    def guards(self) -> bool:
        """Whether it is ever closed."""
        return self._consumers > 0 or self._delay is not None

    def look(self, consumers: int, claimed: int, now: float) -> bool:
        """Consumers have come or gone, or time has: answer whether it is open."""
        if self.is_open:
            self.is_open = not self.guards or consumers > 0
        elif consumers > 0:
            is_time = self._is_due(now) or 0 < self._consumers <= consumers
            self.is_open = is_time and claimed == 0
        if self.is_open or not consumers:
            self.opens_at = None
        return self.is_open

    def _is_due(self, now: float) -> bool:
        if self._delay is None:
            return False
        if self.opens_at is None or self.opens_at == UNTOLD:
            self.opens_at = now + self._delay
        return now >= self.opens_at > UNTOLD
