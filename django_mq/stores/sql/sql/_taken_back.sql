-- Undoes what release_lapsed.sql did. MariaDB changes the columns from left to right: what is read is changed last.
suspect = CASE WHEN m.session_id IS NULL THEN m.claim < 0 ELSE m.suspect END,
    dead_reason = CASE WHEN m.state = 3 THEN '' ELSE m.dead_reason END, dead_at = NULL,
    claim = abs(m.claim), session_id = %(session)s, state = 2
