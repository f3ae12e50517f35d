(SELECT timestampdiff(MICROSECOND, {now}, d.deliver_at)
 FROM django_mq_message d FORCE INDEX (django_mq_message_due)
 WHERE d.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND d.state = 0
 ORDER BY d.deliver_at LIMIT 1)
