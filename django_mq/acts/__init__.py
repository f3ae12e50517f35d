"""Acts: what operators did, from the admin and by commands, why, and how to put it back.

models.py         the rows: acts, and the messages that they have changed
operators.py      the user of an act
recorder.py       writes acts, in the transactions of what they change
command_lines.py  the command that does what an action of the admin does
undo.py           puts back what a move or a redrive has sent
extension.py      the duty that deletes old acts, the settings, and the events of a message
"""
