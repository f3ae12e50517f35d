"""Directories of the archive: on a disk, or on an object store that Arrow supports.

No file is renamed or changed after it is written, so an object store works as well as a disk.
"""

from __future__ import annotations

import os
import time
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from pyarrow import fs

from django_mq.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.models import ArchiveBatch

P = ParamSpec("P")
T = TypeVar("T")

#: The directory below the root with copies of the manifests.
MANIFESTS = "_manifest"


def reaching(act: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    """Make a function of a path raise a PipelineError of one sentence if the path cannot be reached."""

    @wraps(act)
    def acting(path: str, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return act(path, *args, **named)
        except (OSError, ValueError) as error:
            raise PipelineError(f"The archive's {path} cannot be reached: {str(error).rstrip('.')}.") from error

    return acting


def absolute(root: str) -> str:
    """Return the root as it is stored: a URL unchanged, a path as an absolute path."""
    return root.rstrip("/") if "://" in root else str(Path(root).absolute())


def opened(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URL, and the path in it. Raises OSError and ValueError."""
    system, inner = fs.FileSystem.from_uri(spelt_for_arrow(path))
    return system, inner


def spelt_for_arrow(address: str) -> str:
    """Replace s3a://, Hadoop's name for S3, which Arrow does not know, by s3://."""
    return f"s3://{address.removeprefix('s3a://')}" if address.startswith("s3a://") else address


def check_writable(root: str) -> None:
    """Write a file and remove it, before a batch is planned. Raises PipelineError."""
    try:
        system, path = opened(root)
        system.create_dir(path, recursive=True)
        with system.open_output_stream(f"{path}/_writable") as file:
            file.write(b"")
        system.delete_file(f"{path}/_writable")
    except (OSError, ValueError) as error:
        raise PipelineError(f"The archive's root {root} cannot be written: {str(error).rstrip('.')}.") from error


@reaching
def settle(path: str) -> None:
    """Flush the files below a directory to the disk.

    The archive deletes rows after it reads their files. Without the flush, a power cut may lose those files.
    """
    system, inner = opened(path)
    if not isinstance(system, fs.LocalFileSystem):
        return
    inside = [Path(folder, name) for folder, folders, names in os.walk(inner) for name in [*folders, *names]]
    above = [folder for folder in [Path(inner), *Path(inner).parents[:2]] if folder.is_dir()]
    for each in [*inside, *above]:
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@reaching
def directories(root: str) -> dict[str, float]:
    """Return the batch directories below the root, and the time of the last change in each.

    Object stores have no time for a directory; a directory without any time counts as new.
    """
    system, path = opened(root)
    found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return {
        f"{root}/{info.base_name}": _last_change(system, info)
        for info in found
        if info.type == fs.FileType.Directory and info.base_name.startswith("batch=")
    }


def _last_change(system: fs.FileSystem, directory: fs.FileInfo) -> float:
    inside = system.get_file_info(fs.FileSelector(directory.path, recursive=True))
    times = [info.mtime.timestamp() for info in [directory, *inside] if info.mtime is not None]
    return max(times, default=time.time())


@reaching
def sizes(path: str) -> dict[str, int]:
    """Return the size of each data file below a batch's directory, by its path from there.

    Spark does not read files with a name that begins with a dot or an underscore.
    """
    system, inner = opened(path)
    found = system.get_file_info(fs.FileSelector(inner, recursive=True, allow_not_found=True))
    return {
        info.path.removeprefix(inner).lstrip("/"): info.size
        for info in found
        if info.type == fs.FileType.File and not info.base_name.startswith((".", "_"))
    }


def day_of(file: str) -> str:
    """Return the day of a file, by its path from the batch's directory."""
    return file.partition("/")[0].removeprefix("day=")


@reaching
def delete(path: str) -> None:
    """Delete a file or a directory with its content; a missing one is no error."""
    system, inner = opened(path)
    kind = system.get_file_info(inner).type
    if kind == fs.FileType.Directory:
        system.delete_dir(inner)
    elif kind == fs.FileType.File:
        system.delete_file(inner)


@reaching
def write_text(path: str, text: str) -> None:
    system, inner = opened(path)
    system.create_dir(inner.rpartition("/")[0], recursive=True)
    with system.open_output_stream(inner) as file:
        file.write(text.encode())


@reaching
def read_texts(folder: str) -> dict[str, str]:
    """Return the JSON files of a directory by their names; none if there is no such directory."""
    system, inner = opened(folder)
    found = system.get_file_info(fs.FileSelector(inner, allow_not_found=True))
    names = [info for info in found if info.type == fs.FileType.File and info.base_name.endswith(".json")]
    return {info.base_name: system.open_input_stream(info.path).readall().decode() for info in names}


def manifest_of(batch: ArchiveBatch) -> str:
    """Return the path of the copy of a batch's manifest."""
    return f"{batch.root}/{MANIFESTS}/{batch.pk}.json"


def name_of(path: str) -> str:
    """Return the name of a batch's directory, which is unique, however its root is written."""
    return path.rstrip("/").rpartition("/")[2]


def day_directories(batch: ArchiveBatch) -> list[str]:
    """Return the directories of the days in the manifest."""
    return [f"{batch.path}/day={day}" for day in sorted(batch.days)]
