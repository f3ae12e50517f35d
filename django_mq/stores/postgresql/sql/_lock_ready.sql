SELECT m.id, m.suspect, octet_length(m.body) AS size_bytes FROM django_mq_message m
WHERE m.id = ordered.id AND m.state + 0 = 1
FOR UPDATE SKIP LOCKED
