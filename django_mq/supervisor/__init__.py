"""The processes of ``mq_worker``: what starts, watches, replaces and ends them.

===============  =====================================================================
supervisor.py    keeps as many worker processes as it was told
child.py         one worker process, as its supervisor has it
companion.py     one worker process beside a program of another kind
monitor.py       watches the workers of this process: its limits, bound and supervisor
budget.py        counts the messages that a process begins
probes.py        shows the health of a process, in files and on a port
reload.py        gives messages back when the code changes
===============  =====================================================================
"""
