"""What can be asked of a queue, one file for each of those who ask.

Each door takes the queue's lock and hands the work to the parts behind it; a queue is all
of the doors together.
"""
