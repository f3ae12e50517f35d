UPDATE django_mq_message m
SET state = 2, session_id = %(session)s, claim = %(claim)s, claimed_at = {now},
    attempts = m.attempts + m.suspect::int
WHERE m.id = ANY(ARRAY(SELECT id FROM chosen))
