"""Results of native messages, kept on request, and calls that wait for them.

models.py     the rows of results
recorder.py   writes them in the transaction that settles a message, and deletes them when their time is over
reader.py     reads a result, or waits for it
calls.py      publishes a message and waits for its result
extension.py  how this enters: a listening, a duty, and a line on the page of the message
"""
