m.id, %(claim)s, (SELECT name FROM django_mq_queue WHERE id = m.queue_id), m.level, m.place, m.priority,
m.attempts, m.redelivered, m.suspect, coalesce(m.expires_at <= {now}, false), m.message_id, m.type,
m.correlation_id, m.group_key, m.published_at, m.deliver_at, m.expires_at, m.content_type,
m.content_encoding, m.headers, m.properties,
CASE WHEN octet_length(m.body) <= %(share_bytes)s THEN m.body END, octet_length(m.body)
