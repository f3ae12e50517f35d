"""What ``mq_top`` shows.

look.py     one look at the queues and the workers, for both forms
curve.py    a figure of the last minutes as a line of blocks
tables.py   the columns of the program, and what sorts them
looker.py   the thread that looks
program.py  the program, with textual
logs.py     log lines, kept off the screen
"""
