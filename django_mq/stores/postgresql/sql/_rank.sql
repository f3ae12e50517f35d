array_position(ARRAY(SELECT id FROM chosen ORDER BY rank), m.id)
