"""History out of the database, and safely: planned, written, read back, and only then deleted.

A batch is a row (``manifest``). An attempt writes into a directory of its own; the row
names the directory that counts, and is changed in one statement once everything has been
read back (``writing``). What is deleted are the ids read from those files.
So a process may be killed anywhere: before the row says *written* the history is
untouched and the attempt's directory is nobody's; after it, the purge can be repeated.
"""
