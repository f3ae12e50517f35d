"""Hints through Unix sockets in a folder: a transport that django_mq does not know."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django_mq.notifications.base import Listener, Notifier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.notifications.base import Wake


class DatagramNotifier(Notifier):
    reaches_others = True

    def send(self, topics: Iterable[str], **_: Any) -> None:
        for topic in topics:
            for path in Path(os.environ["HINT_FOLDER"]).iterdir():
                with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                    sender.setblocking(False)
                    sender.sendto(topic.encode(), str(path))

    def listen(self, wake: Wake) -> DatagramListener:
        return DatagramListener(wake)


class DatagramListener(Listener):
    connected = True

    def __init__(self, wake: Wake) -> None:
        self._wake, self._topics = wake, frozenset[str]()
        self._path = Path(os.environ["HINT_FOLDER"]) / uuid4().hex
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._path))
        threading.Thread(target=self._hear, daemon=True).start()

    def subscribe(self, topics: Iterable[str]) -> None:
        self._topics = frozenset(topics)

    def _hear(self) -> None:
        with self._socket:
            while topic := self._socket.recv(4096).decode():
                if topic in self._topics:
                    self._wake.set(topic)

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", str(self._path))
        self._path.unlink()
