"""What a queue of the in-process broker holds.

entry.py       the place and state of a message in one queue
contents.py    the entries of a queue, by state
capacity.py    how a queue keeps to its limits
lists.py       the order of ready entries
timeline.py    what is due or expires at which time
duplicates.py  the duplicate ids that are remembered
view.py        what a browsing consumer has seen
limited.py     what limits by key have used
afterlife.py   dead and expired messages
"""
