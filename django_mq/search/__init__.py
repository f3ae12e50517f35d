"""Search keys: messages are found by declared headers, fields and arguments, for as long as their history.

writer.py     writes the keys of messages, in the transaction that publishes them
finder.py     finds messages by their keys, and the keys of messages
pruning.py    deletes the keys of messages that are gone
extension.py  the option of queues, and where all this enters
"""
