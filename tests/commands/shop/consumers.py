"""The shop's handlers write a diary: a line as each message is begun."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from django_mq.api import consumer


def note(word: str) -> None:
    """Append a line to the diary, in one write."""
    diary = os.open(os.environ["SHOP_DIARY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(diary, f"{word}\n".encode())
    os.close(diary)


@consumer("orders", credit=10)
def handle_order(message: Any) -> None:
    note(str(message.body))


@consumer("gated", credit=4)
def handle_behind_a_gate(message: Any) -> None:
    """Wait, in another process, for a file that the test makes."""
    note(str(message.body))
    while not Path(os.environ["SHOP_GATE"]).exists():
        time.sleep(0.01)
