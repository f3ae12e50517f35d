"""The library index: every file of Python's standard library, parsed through a queue.

shelves.py     which files there are, of what kind and priority
models.py      one row a file
enlisting.py   rows and messages in one transaction
tasks.py       Celery: parse one file
analysis.py    what is to be known about a file; knows neither Django nor queues
indexing.py    what was found goes into the rows, once
consumers.py   native handlers: import edges, and the closing summary
demo/          ``manage.py demo``: runs it all and checks the result without the queue
"""
