"""The proof that nothing is lost: processes are killed, stopped and cut off, and then every message is counted.

A *place* is a database of the test's own with one queue. Its processes are born in the
*nursery*, a program that has imported everything already, so that a worker lives within
milliseconds and two hundred of them can be killed in the time of a coffee's first sip.
A process that publishes or handles a message leaves a *note* in the same database; the *account* compares
the notes with what the tables say.
"""
