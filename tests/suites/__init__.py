"""The suites of Kombu and Celery, run against us.

They come from the source distributions of the installed versions, fetched when they are
run; none of their code is kept here.

    sources.py       fetches the tests of an installed package
    kombu_cases.py   Kombu's integration kit as cases for our URL
    test_kombu.py    runs them on each kind of database
    celery_suite.py  Celery's integration suite: what is run, what is left out and why
    celery.py        runs all of it, or some modules, by hand
    test_celery.py   runs its most telling modules
"""
