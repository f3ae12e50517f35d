"""A way to a database server with a trap: at a chosen message of the client, something happens to the client."""

from __future__ import annotations

import re
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote, urlunsplit

from tests.proof.link import CHUNK, Link, hang_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The code of PostgreSQL's last message without a type.
STARTUP = 196608
#: What differs from process to process in a statement.
NUMBER = re.compile(r"\d+")
MARK = re.compile(r"/\* django_mq \S+ \*/ ")


#: The types of PostgreSQL's messages.
KINDS = {
    "P": "Parse",
    "B": "Bind",
    "D": "Describe",
    "E": "Execute",
    "S": "Sync",
    "H": "Flush",
    "Q": "Query",
    "X": "Terminate",
}


class Snare:
    """What waits for a client: the number of its message, and what happens before or after that message."""

    def __init__(self, number: int, act: Callable[[], None], *, after: bool, on: str, at: str) -> None:
        self.left, self.act, self.after, self.on, self.at = number, act, after, on, at
        #: Set when the message has come; what the message was.
        self.sprung = threading.Event()
        self.point = ""
        #: Set when the message may pass at last.
        self.released = threading.Event()


class Conversation:
    """The messages of one client, as the server's protocol divides them."""

    def __init__(self) -> None:
        self._rest = b""
        #: What was said so far that tells one connection from another.
        self.said = ""

    def messages(self, piece: bytes) -> Iterator[tuple[bytes, str]]:
        """Yield each complete message with a word about it."""
        self._rest += piece
        while (size := self.size(self._rest)) and size <= len(self._rest):
            message, self._rest = self._rest[:size], self._rest[size:]
            word = MARK.sub("", self.word(message))
            self.said += f" {word}"
            self.said = self.said[-20_000:]
            yield message, word

    def size(self, data: bytes) -> int:
        """Return how long the first message is, 0 if that is not known yet."""
        raise NotImplementedError

    def word(self, message: bytes) -> str:
        raise NotImplementedError


class PostgreSQLConversation(Conversation):
    def __init__(self) -> None:
        super().__init__()
        self._has_begun = False
        self._texts: dict[bytes, str] = {}
        self._last = ""

    def size(self, data: bytes) -> int:
        start = 1 if self._has_begun else 0
        return start + struct.unpack_from("!I", data, start)[0] if len(data) >= start + 4 else 0

    def word(self, message: bytes) -> str:
        if not self._has_begun:
            self._has_begun = struct.unpack_from("!I", message, 4)[0] == STARTUP
            return "start"
        kind, parts = chr(message[0]), message[5:].split(b"\0")
        if kind == "P":
            self._last = self._texts[parts[0]] = parts[1].decode(errors="replace")
        elif kind == "B":
            self._last = self._texts.get(parts[1], "")
        elif kind == "Q":
            self._last = parts[0].decode(errors="replace")
        return f"{KINDS.get(kind, kind)} {self._last}"


class MariaDBConversation(Conversation):
    def size(self, data: bytes) -> int:
        return 4 + int.from_bytes(data[:3], "little") if len(data) >= 4 else 0

    def word(self, message: bytes) -> str:
        is_query = message[3] == 0 and message[4:5] == b"\x03"
        return f"Query {message[5:].decode(errors='replace')}" if is_query else "packet"


class Trap(Link):
    """Listens on a port of its own, and carries everything to the database server of ``url`` and back."""

    kinds: ClassVar[dict[str, tuple[str, type[Conversation]]]] = {
        "postgresql": ("/.s.PGSQL.5432", PostgreSQLConversation),
        "mysql": ("", MariaDBConversation),
    }

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._suffix, self._conversation = self.kinds[self._server.scheme]
        self._snare: Snare | None = None
        self._choosing = threading.Lock()
        #: Set for the connections through which nothing passes any more.
        self._silent = threading.Event()

    @property
    def url(self) -> str:
        user = self._server.netloc.rpartition("@")[0]
        return urlunsplit(self._server._replace(netloc=f"{user}@127.0.0.1:{self.port}"))

    def lay(self, number: int, act: Callable[[], None], *, after: bool, on: str = "", at: str = "") -> Snare:
        """Act before or after a message passes: this one of those about ``at``, of a connection with ``on``."""
        with self._choosing:
            self._snare = Snare(number, act, after=after, on=on, at=at)
            return self._snare

    def silence(self) -> None:
        """Carry nothing more for all present connections, and close none; new ones work."""
        self._silent.set()
        self._silent = threading.Event()

    def close_silent(self) -> None:
        """Close what is open: the network says at last that nothing passes."""
        ends, self._ends = self._ends, []
        for end in ends:
            hang_up(end)

    def _reach(self) -> socket.socket:
        host = unquote(self._server.netloc.rpartition("@")[2])
        if not host.startswith("/"):
            return super()._reach()
        server = socket.socket(socket.AF_UNIX)
        server.connect(host + self._suffix)
        return server

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        conversation, silent = self._conversation(), self._silent
        with suppress(OSError):
            while piece := source.recv(CHUNK):
                for message, word in conversation.messages(piece):
                    self._pass(message, word, conversation, target, silent)
        if not silent.is_set():
            hang_up(target)

    def _pass(
        self, message: bytes, word: str, conversation: Conversation, target: socket.socket, silent: threading.Event
    ) -> None:
        snare = self._counted(conversation, word)
        if snare is not None and not snare.after:
            self._spring(snare, word)
        if not silent.is_set():
            target.sendall(message)
        if snare is not None and snare.after:
            self._spring(snare, word)

    def _counted(self, conversation: Conversation, word: str) -> Snare | None:
        """Count a message; return the snare if it is the one."""
        with self._choosing:
            snare = self._snare
            if snare is None or snare.on not in conversation.said or snare.at not in word:
                return None
            snare.left -= 1
            if snare.left > 0:
                return None
            self._snare = None
            return snare

    def _spring(self, snare: Snare, word: str) -> None:
        snare.act()
        snare.point = f"{'after' if snare.after else 'before'} {NUMBER.sub('0', ' '.join(word.split()))[:90]}"
        snare.sprung.set()
        if not snare.after:
            snare.released.wait()

    def _carry_late(self, source: socket.socket, target: socket.socket) -> None:
        silent = self._silent
        with suppress(OSError):
            while not silent.is_set() and (piece := source.recv(CHUNK)):
                if not silent.is_set():
                    target.sendall(piece)
        if not silent.is_set():
            hang_up(target)
