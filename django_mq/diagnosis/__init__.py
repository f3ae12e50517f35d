"""What is going on, and what is wrong: how the queues stand, and the doctor's findings.

overview.py     every queue with its depth and its consumers
by_type.py      what runs and what fails, over the newest rows of the past
findings.py     one finding: what was looked at, what was found, how to mend it
environment.py  the settings' checks and Redis
database.py     the connection, the migrations, the clock
tables.py       tables, columns, types and indexes as the migrations made them; privileges
work.py         leases, orphans, unknown words, queues that do not move
doctor.py       all of them in order; a question that makes no sense any more is left out
"""
