SELECT m.id
FROM json_each(%(given)s) AS given
CROSS JOIN django_mq_message m ON m.id = json_extract(given.value, '$.ids')
    AND m.claim = json_extract(given.value, '$.claims')
WHERE m.state = 2 AND m.session_id = %(session)s
