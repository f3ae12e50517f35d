"""Django settings of the tests.

``every_database`` is pytest's: one process, one alias per kind of database. ``sqlite`` and
``postgresql`` have one database each, for tools and for processes that a test starts.
"""
