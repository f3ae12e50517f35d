"""Management commands: parse, call one function, print.

command.py  the option and the errors that all of them share
tables.py   columns, spans and counts for a terminal
"""
