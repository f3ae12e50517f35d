m.id, m.claim, (SELECT name FROM django_mq_queue WHERE id = m.queue_id), {claimed_columns}
