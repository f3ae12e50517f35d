"""The tiles of the first screen: six figures of all queues, and those of extensions, with their past.

figures.py    the six figures, and those of extensions
models.py     the figures of each minute
past.py       the last hour of each figure, and the same time yesterday
sampler.py    notes the figures each minute, deletes old ones
extension.py  the duties
"""
