"""The same back office, written against Celery and against django_mq.

with_celery/     the office for Celery, with Redis as its broker
with_django_mq/  the office for django_mq
outside.py       the services outside of the office: the post, the bank, files. Both offices use it
acceptance.py    what both offices do; runs in a process of each, beside its worker
test_offices.py  run the acceptance test and the offices' own tests, count the lines of both, and compare the page

The page is docs/explanation/coming-from-celery.md. Change it with the offices.
"""
