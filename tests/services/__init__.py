"""A real PostgreSQL, MariaDB and Redis for tests and developers: no root, no Docker, nothing left behind.

Two come from wheels, and MariaDB is run where it is installed. All listen where no other
server does (the databases on a socket in their own directory, Redis on a free port of the
loopback) and die with the process that started them. ``python -m tests.services --
COMMAND`` wraps any command; tests use the fixtures of ``tests/conftest.py``.
"""
