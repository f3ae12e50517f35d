"""The scripts that Redis runs, each a file beside this one: atomic, and one round trip."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib import resources


@dataclass(frozen=True, slots=True)
class Script:
    """Its text, and the digest by which a server that knows it is asked for it."""

    text: str
    digest: str

    def call(self, *arguments: object) -> tuple[object, ...]:
        """Return the command that runs it. All its keys have one hash tag, and are made from the arguments."""
        return ("EVALSHA", self.digest, 0, *arguments)

    def call_in_full(self, *arguments: object) -> tuple[object, ...]:
        """Return the command that runs it on a server that has forgotten it, and remembers it from then on."""
        return ("EVAL", self.text, 0, *arguments)

    def load(self) -> tuple[object, ...]:
        """Return the command that makes a server know it."""
        return ("SCRIPT", "LOAD", self.text)


@cache
def script(name: str) -> Script:
    """Return the script of that name, after what all scripts share."""
    folder = resources.files("django_mq.notifications").joinpath("lua")
    text = "".join(folder.joinpath(f"{part}.lua").read_text("utf-8") for part in ("keys", name))
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
