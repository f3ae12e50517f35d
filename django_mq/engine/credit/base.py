"""What every credit mode declares."""

from abc import ABC, abstractmethod


class Credit(ABC):
    """What a consumer may still be sent. Not safe by itself: the queue's lock guards it.

    Amounts are whole numbers in 0..2**63; None is any number. Whatever a method raises, it has
    changed nothing.
    """

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
        """Whether a message of ``size`` bytes may be delivered now; never if it is not open."""

    @abstractmethod
    def take(self, size: int) -> bool:
        """Use credit for one message; False, with nothing used, if it does not suffice."""

    @abstractmethod
    def give_back(self, size: int) -> None:
        """One delivered message of ``size`` bytes was settled."""

    @abstractmethod
    def add(self, messages: int | None = 0, size_bytes: int | None = 0) -> None:
        """Allow so much more; None: without limit from now on, and later additions change nothing.

        Raises OutOfRange for what is no amount, and UncountedUnit for a unit that the mode
        does not count.
        """

    @abstractmethod
    def resize(self, messages: int | None, size_bytes: int | None = None) -> None:
        """Set new limits; what is outstanding stays, and is worked off if it is too much.

        Raises as ``add`` does; a unit that the mode does not count is None.
        """

    @abstractmethod
    def stop(self) -> None:
        """Allow nothing more until ``resize`` or ``add``, whatever is given back meanwhile.

        Every limit is 0 then, also one that was None: additions must be made to all of them.
        """
