"""Move history to the archive: plan, write, read back, and only then delete.

A batch is a row (``manifest``). Every attempt writes into its own directory. The row
names the directory that counts, and is changed in one statement after everything has been
read back (``writer``). Only rows with ids read from those files are deleted.
So the process may be killed at any time: before the row says *written* the history is
complete and the attempt's directory is litter; after it, the purge can be repeated.
"""
