"""Messages in the admin, and what is left of them when they have finished.

admin.py         the list of messages and the page of one
selection.py     the messages that an action is to change
actions.py       the actions, each with the states it is for
publish_form.py  the form that publishes a message, or a copy
downloads.py     messages as a file
failures.py      the failed attempts of a message
life.py          the address of a message, and what every page of it shows
neighbours.py    the messages before and after it in a list
search_page.py   the search of live, past and failed messages
timeline.py      what happened to a message, and when
history.py       finished messages, and failed attempts
task_results.py  the results of Django's tasks
"""
