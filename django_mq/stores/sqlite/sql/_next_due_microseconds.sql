(SELECT CAST(strftime('%%s', substr(d.deliver_at, 1, 19)) AS INTEGER) * 1000000
        + CAST(substr(d.deliver_at, 21, 6) AS INTEGER) - %(now_microseconds)s
 FROM django_mq_message d
 WHERE d.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND d.state = 0
 ORDER BY d.deliver_at LIMIT 1)
