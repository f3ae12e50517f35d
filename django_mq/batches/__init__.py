"""Batches: messages that belong together, counted until the last one ends, which publishes the callback.

models.py     the rows: batches, and their members
handle.py     what a program holds of a batch: begin, add, close, cancel, redrive, read
membership.py writes the members of what is published, in the transaction of the messages
callbacks.py  checks and stores the callbacks, and publishes them
steering.py   cancels, redrives and deletes batches, for programs and operators
panel.py      what the page of a message in the admin says of its batch
ends.py       counts the ends of members, and ends batches
duty.py       sums the counts up, ends what two transactions did not see of each other, and deletes old batches
reconcile.py  ends members whose messages are gone, and goes on with a cancel
extension.py  the listening, the duties, the setting, and the panels of a message
"""
