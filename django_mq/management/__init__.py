"""Management commands: parse, call one function, print.

command.py     the option and the errors that all of them share
arguments.py   values and options that several of them read
completion.py  queue names for the shell
messages.py    which messages are meant, and what is said of what was done to them
pausing.py     pause and resume, by whatever command
tables.py      columns, spans and counts for a terminal
progress.py    a bar for whoever watches
spark/         the jobs of mq_spark
"""
