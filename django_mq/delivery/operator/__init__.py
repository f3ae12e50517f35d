"""What an operator changes by hand, in the admin or by a command.

browser.py       read messages without taking them
queue_editor.py  create queues and change their options
drift.py         compare queues with the settings
bindings.py      bind queues to exchanges
cycles.py        find the ways on which dead letters come back
actions.py       move, cancel, release, reschedule and prioritise selected messages
begun_runs.py    what runs of tasks that were acknowledged when they began, and how to stop it
recalls.py       have workers give back what they have not begun, for a purge, a cancel or a move
answers.py       the values that the verbs of the Python API take and return
verbs.py         the verbs of the Python API: cancel, move, redrive, reschedule, release
named.py         messages that a program names by their ids, which the verbs change
moves.py         move many messages from one queue to another
redrives.py      send dead letters back to the queues they came from
commands.py      send a command to a worker
"""
