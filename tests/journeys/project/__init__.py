"""A site with Celery, as small as one can be. Nothing in it but the broker's URL knows django_mq."""
