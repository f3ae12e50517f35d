FORCE INDEX (django_mq_message_claimed)
