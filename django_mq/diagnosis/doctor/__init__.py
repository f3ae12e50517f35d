"""The checks of ``mq_doctor``.

examination.py  runs all checks in order
environment.py  the settings
database.py     the connection, the migrations, the clock
tables.py       tables, columns, indexes and privileges
work.py         leases, orphans, unknown states, queues that do not move
"""
