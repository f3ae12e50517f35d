"""Who stands behind a consumer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Client:
    """The names a consumer's client goes by; None for one that is not known.

    Two consumers with the same name for the same thing belong to the same client.
    """

    #: One conversation on a connection.
    session: str | None = None
    connection: str | None = None
    #: The user, as authenticated.
    principal: str | None = None
    #: The application: it keeps this name over all its connections.
    container: str | None = None
