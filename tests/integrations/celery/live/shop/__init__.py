"""A project as one finds them, with the settings of a Redis broker, that moves to django_mq."""
