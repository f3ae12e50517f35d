FORCE INDEX (django_mq_message_ready)
