(SELECT seq FROM sqlite_sequence WHERE name = 'django_mq_message')
