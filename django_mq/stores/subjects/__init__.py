"""What a store can do: an abstract class for each subject, in the order in which a message meets them.

``database``, ``queues``, ``exchanges``, ``publications``, ``sessions``, ``claims``, ``parking``, ``browser``,
``operations``, ``maintenance`` and ``volatile``. Methods raise ``StoreError``, or ``StoreUnavailable`` if
trying again later may help, and the publish errors that ``append`` documents.
"""
