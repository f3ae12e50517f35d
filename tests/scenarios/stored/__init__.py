"""The same scenarios, played on durable queues: the methods of an engine's broker, over a store.

The step words of the vocabularies call a broker's queues, consumers and targets. Here these are
rows of a store: a consumer is a worker session that claims one message at a time, within its
credit, as the delivery layer would, and settles through the delivery layer's own judgement.

site.py      the store of one scenario, its clock and its names
rows.py      what stands in the tables
options.py   from the engine's rules to the options of a stored queue
queue.py     a queue's methods
browser.py   a consumer that takes nothing
hints.py     what a consumer hears
consumer.py  a consumer with its worker session; a target over several queues
broker.py    the queues by name
work.py      a unit of work: one transaction
opening.py   a store of each kind, for the command
unfit.py     the scenarios that each store leaves out, and why
"""
