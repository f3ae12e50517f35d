"""Batches: messages that belong together, counted until the last one ends, which publishes the callback.

models.py     the rows: batches, and their members
handle.py     what a program holds of a batch: begin, add, close, cancel, redrive, read
membership.py writes the members of what is published, in the transaction of the messages
callbacks.py  checks and stores the callbacks, and publishes them
ends.py       counts the ends of members, and ends batches
duty.py       sums the counts up, ends what two transactions did not see of each other, and deletes old batches
extension.py  the listening, the duties, the setting, and the panel of a message
"""
