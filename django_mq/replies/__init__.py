"""Results of native messages, kept on request, calls that wait for them, and the progress that handlers report.

models.py     the rows of results, and of progress
recorder.py   writes them in the transaction that settles a message, and deletes them when their time is over
reader.py     reads a result, or waits for it
calls.py      publishes a message and waits for its result
progress.py   what handlers report of their progress, and what programs read of it
reporter.py   the thread that writes it
panel.py      what the admin shows
extension.py  how this enters: a listening, duties, what takes reports, and parts of the page of the message
"""
