"""How much more may be delivered to a consumer before it settles something.

Credit is counted in messages and in bytes. A mode is a subclass of ``base.Credit``, in a file
of its own; a queue asks nothing of a consumer's credit but what that class declares.
"""
