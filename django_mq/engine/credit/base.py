"""What every credit mode declares."""

from abc import ABC, abstractmethod
from typing import Final

#: As a limit: none.
UNLIMITED: Final = None


class Credit(ABC):
    """What a consumer may still be sent. Not safe by itself: the queue's lock guards it."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether there is any credit, for a message of some size."""

    @property
    @abstractmethod
    def free(self) -> int | None:
        """How many messages may follow if bytes allow; None means any number."""

    @abstractmethod
    def allows(self, size: int) -> bool:
        """Whether a message of ``size`` bytes may be delivered now."""

    @abstractmethod
    def take(self, size: int) -> bool:
        """Use credit for one message; False, with nothing used, if it does not suffice."""

    @abstractmethod
    def give_back(self, size: int) -> None:
        """One delivered message of ``size`` bytes was settled."""

    @abstractmethod
    def resize(self, messages: int | None, size_bytes: int | None) -> None:
        """Set new limits; what is outstanding stays, and is worked off if it is too much."""

    @abstractmethod
    def stop(self) -> None:
        """Allow nothing more until ``resize``, whatever is given back meanwhile."""
