(SELECT extract(epoch FROM d.deliver_at - {now}) * 1000000
 FROM django_mq_message d
 WHERE d.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND d.state = 0
 ORDER BY d.deliver_at LIMIT 1)::bigint
