"""Directories of the archive: on a disk, or on an object store that Arrow knows.

Nothing is ever renamed or written into again, so an object store is as good as a disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow import fs

from django_mq.errors import PipelineError

if TYPE_CHECKING:
    from django_mq.models import ArchiveBatch


def absolute(root: str) -> str:
    """Return the root as it is kept: an address as it is, a path from the top."""
    return root.rstrip("/") if "://" in root else str(Path(root).absolute())


def opened(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of an address, and the path in it. Raises OSError and ValueError."""
    system, inner = fs.FileSystem.from_uri(spelt_for_arrow(path))
    return system, inner


def spelt_for_arrow(address: str) -> str:
    """Return the address without Hadoop's own name for S3, which Spark wants and Arrow does not know."""
    return f"s3://{address.removeprefix('s3a://')}" if address.startswith("s3a://") else address


def check_writable(root: str) -> None:
    """Write a file and remove it, before anything is planned. Raises PipelineError."""
    try:
        system, path = opened(root)
        system.create_dir(path, recursive=True)
        with system.open_output_stream(f"{path}/_writable") as file:
            file.write(b"")
        system.delete_file(f"{path}/_writable")
    except (OSError, ValueError) as error:
        raise PipelineError(f"The archive's root {root} cannot be written: {error}.") from error


def exists(path: str) -> bool:
    """Return whether there is such a directory."""
    system, inner = opened(path)
    return bool(system.get_file_info(inner).type == fs.FileType.Directory)


def directories(root: str) -> dict[str, float]:
    """Return the batch directories below the root, and the time at which each last changed."""
    system, path = opened(root)
    found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return {
        f"{root}/{info.base_name}": info.mtime.timestamp() if info.mtime else 0.0
        for info in found
        if info.type == fs.FileType.Directory and info.base_name.startswith("batch=")
    }


def delete(path: str) -> None:
    """Delete a directory with all that is in it; a directory that is not there is none the worse."""
    system, inner = opened(path)
    if system.get_file_info(inner).type == fs.FileType.Directory:
        system.delete_dir(inner)


def write_text(path: str, text: str) -> None:
    """Write a small file."""
    system, inner = opened(path)
    system.create_dir(inner.rpartition("/")[0], recursive=True)
    with system.open_output_stream(inner) as file:
        file.write(text.encode())


def day_directories(batch: ArchiveBatch) -> list[str]:
    """Return the directories of the days that the manifest names."""
    return [f"{batch.path}/day={day}" for day in sorted(batch.days)]
