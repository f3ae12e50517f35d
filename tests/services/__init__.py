"""Real servers for tests and developers, PostgreSQL, MariaDB, Redis and RabbitMQ: no root, no Docker, no remains.

PostgreSQL and Redis come from wheels; MariaDB and RabbitMQ are run where they are installed. All listen where no
other server does (the databases on a socket in their own directory, the brokers on a free port of the
loopback) and die with the process that started them. ``python -m tests.services --
COMMAND`` wraps any command; tests use the fixtures of ``tests/conftest.py``.
"""
