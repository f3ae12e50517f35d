"""Management commands: parse, call one function, print.

arguments.py     arguments, and values that they take
command.py       the base of all commands
messages.py      the base of commands that change messages
lines.py         many messages from a file of JSON lines
operations.py    continue operations of the admin
confirmation.py  a question at the terminal
tables.py        tables, time spans and counts for a terminal
progress.py      a progress bar
top/             what mq_top shows
spark/           the jobs of mq_spark
"""
