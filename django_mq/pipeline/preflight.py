"""Check that everything that Spark needs is installed; otherwise one sentence says how to get it.

Without this check, a missing Java ends in an error about a gateway and its port.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from django_mq.errors import SparkUnavailable

OLDEST_JAVA = 17
PACKAGES = ("pyspark", "pyarrow", "pandas")
CONNECT_PACKAGES = ("grpc", "grpc_status", "zstandard")
CONNECT_PORT = 15002
#: How long a server may take to answer.
PATIENCE_SECONDS = 15.0
HOW_TO_GET_JAVA = (
    f"install Java {OLDEST_JAVA} or newer (Debian: apt install openjdk-17-jre-headless) and set JAVA_HOME "
    "if it is not on the PATH, or name a Spark Connect server in SPARK_REMOTE"
)


def check() -> None:
    """Return if Spark can be started here. Raises SparkUnavailable."""
    check_packages()
    remote = os.environ.get("SPARK_REMOTE", "")
    if remote:
        check_connect()
    # A server with a local address starts here.
    if not remote or remote.startswith("local"):
        check_java()


def check_connect() -> None:
    """Return if the packages for a client of Spark Connect are installed. Raises SparkUnavailable."""
    _check_installed("Spark Connect", CONNECT_PACKAGES, "pyspark[connect]")


def check_server(remote: str) -> None:
    """Return if a Spark Connect server answers at an address, or starts here. Raises SparkUnavailable.

    Spark itself would try for ten minutes, and then fail with a hundred lines.
    """
    if not remote or remote.startswith("local"):
        return
    host, port = _server(remote)
    try:
        with socket.create_connection((host, port), timeout=PATIENCE_SECONDS):
            pass
        if "use_ssl=true" not in remote and "token=" not in remote:
            _greet(host, port)
    except OSError as error:
        raise SparkUnavailable(
            f"No Spark Connect server answers at {host}:{port} ({str(error) or 'it does not speak gRPC'}): start "
            "one, or correct the address, sc://HOST[:PORT]."
        ) from error


def _server(remote: str) -> tuple[str, int]:
    try:
        parts = urlsplit(remote)
        if parts.scheme == "sc" and parts.hostname:
            return parts.hostname, parts.port or CONNECT_PORT
    except ValueError:
        pass
    raise SparkUnavailable(
        f"{remote!r} is no address of a Spark Connect server; write sc://HOST[:PORT] or local[N]."
    )


def _greet(host: str, port: int) -> None:
    """Return when the server answers with gRPC. Raises TimeoutError."""
    import grpc

    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=PATIENCE_SECONDS)
        except grpc.FutureTimeoutError:
            raise TimeoutError from None


def check_packages() -> None:
    """Raise SparkUnavailable unless all packages are installed."""
    _check_installed("Spark", PACKAGES, "django-mq[spark]")


def _check_installed(needing: str, packages: tuple[str, ...], how: str) -> None:
    if missing := [name for name in packages if find_spec(name) is None]:
        raise SparkUnavailable(f"{needing} needs {', '.join(missing)}: pip install '{how}'.")


def check_java() -> None:
    """Return if a Java that Spark can use is found. Raises SparkUnavailable."""
    java = find_java()
    if java is None:
        raise SparkUnavailable(f"Spark needs Java, and there is none here: {HOW_TO_GET_JAVA}.")
    found = java_version(java)
    if found < OLDEST_JAVA:
        raise SparkUnavailable(f"Spark needs Java {OLDEST_JAVA}, and {java} is Java {found}: {HOW_TO_GET_JAVA}.")


def find_java() -> Path | None:
    """Return the Java that Spark's launcher uses: JAVA_HOME's, else the PATH's."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "/nonexistent")
    return found if os.access(found, os.X_OK) else None


def java_version(java: Path) -> int:
    """Return the major version, as in 17. Raises SparkUnavailable if Java does not run."""
    command = [str(java), "-version"]
    try:
        # S603: the path is JAVA_HOME's or the PATH's, as Spark's own launcher takes it.
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkUnavailable(f"{java} does not run ({type(error).__name__}): {HOW_TO_GET_JAVA}.") from error
    return parse_version(done.stderr + done.stdout)


def parse_version(text: str) -> int:
    """Return the major version that ``java -version`` printed; 0 if it is unknown.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15'), parse_version('java version "1.8.0_402"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else 0
