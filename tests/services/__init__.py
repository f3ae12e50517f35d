"""A real PostgreSQL and a real Redis for tests and developers: no root, no Docker, nothing left behind.

Both servers come from wheels, listen where nobody else does (PostgreSQL on a socket in
its own directory, Redis on a free port of the loopback) and die with the process that
started them. ``python -m tests.services -- COMMAND`` wraps any command; tests use the
fixtures of ``tests/conftest.py``.
"""
