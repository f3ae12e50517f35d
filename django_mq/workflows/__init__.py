"""Workflows: graphs of steps with dependencies, whose messages are published as others end.

declared.py   how code declares a workflow and its steps
workflow.py   what starts it
registry.py   what finds a declaration by its name
graphs.py     the graph of a workflow as its row has it
values.py     results and inputs as rows have them
models.py     the rows
statements.py the SQL, over the connection over which a message ends
results.py    what the steps of a run have returned
locked.py     a run whose rows are locked: how it begins, goes on, ends, is undone, and is run again
starter.py    how a run is written, in the transaction of the caller
ends.py       what the end of a message means for its step
context.py    what a handler is told of the step that it runs
verbs.py      cancel, retry and delete
duty.py       deadlines, ends that were missed, and old rows
extension.py  how all this enters
"""
