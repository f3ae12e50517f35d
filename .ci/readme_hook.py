"""Change the README for a package index, where links into the repository lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]+\)\n\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")


def without_links(text: str) -> str:
    """Drop the pictures, and write each link into the repository as its text with the path of the file."""
    return _LINK.sub(r"\1 (`\2`)", _PICTURE.sub("", text))


class ReadmeHook(MetadataHookInterface):
    """Gives the package the changed README as its description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_links(text)}
