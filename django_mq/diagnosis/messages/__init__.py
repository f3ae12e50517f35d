"""Choose messages, and show, export or copy them.

criteria.py      what each filter means
terms.py         what a search term means
indexes.py       messages that an index alone finds
slices.py        searches the other messages slice by slice
finder.py        the messages that a list shows
choice.py        the messages that a command names, by ids or by filters
queue_names.py   names of queues as a user types them
masking.py       what is hidden of bodies and headers
payload.py       headers and bodies as text that a page can show
json_objects.py  a message as a JSON object
exports.py       messages as JSON lines or as CSV
search.py        one search over live, past and failed messages
life.py          the rows of a message in all queues and in the history
copies.py        a message to publish again
task_ids.py      the id of a Celery task in a copy
"""
