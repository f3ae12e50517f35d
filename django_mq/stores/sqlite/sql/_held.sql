FROM json_each(%(held)s) AS given
CROSS JOIN json_each(given.value) AS one
CROSS JOIN django_mq_message gone ON gone.id = one.value
    AND gone.claim = CAST(given.key AS INTEGER) AND gone.state = 2 AND gone.session_id = %(session)s
