"""What a queue of the engine holds.

entry.py     the place and state of a message in one queue
contents.py  the entries of a queue, by state
overflow.py  limits, and what to do when the queue is full
lists.py     the order of ready entries
timeline.py  what is due or expires at which time
view.py      what a browsing consumer has seen
afterlife.py  dead and expired messages
"""
