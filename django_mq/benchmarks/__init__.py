"""What ``manage.py mq_bench`` measures, each figure beside plain SQL of the same run.

measures.py     publish, drain and pick up; medians of repeats that take turns
plain_sql.py    the same work done without us
"""
