m.id, %(claim)s, chosen.queue_name, m.level, m.place, m.priority, m.attempts,
+m.redelivered, +m.suspect, coalesce(m.expires_at <= {now}, 0), m.message_id, m.type, m.correlation_id,
m.group_key, +m.published_at, +m.deliver_at, +m.expires_at, m.content_type, m.content_encoding,
m.headers, m.properties, m.body
