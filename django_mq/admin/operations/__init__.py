"""Operations: actions on more messages than a request can wait for.

runner.py  does an operation batch by batch, outside of the request
admin.py   the list of operations and the page of one
"""
