-- name: _position. The number, from 1, of what a claim across several queues reads.
(given.key + 1)

-- name: _alike. LIKE would take capital letters for small ones.
({it}) GLOB

-- name: _pattern
%({it}_glob)s

-- name: _header. The value of a header, if it has one of these types. A row that was not written by a publisher may hold
-- no JSON.
(SELECT h.value FROM json_each(CASE WHEN json_valid(m.headers) THEN m.headers ELSE '{}' END) h WHERE h.key = {it})

-- name: _header_text
{header:{it} AND h.type = 'text'}

-- name: _header_number. Larger numbers than a double holds are no value.
{header:{it} AND h.type IN ('integer', 'real') AND abs(h.value + 0.0) <= 1.7976931348623157e308}

-- name: _header_truth
{header:{it} AND h.type IN ('true', 'false')}

-- name: _id_text
(substr(m.message_id, 1, 8) || '-' || substr(m.message_id, 9, 4) || '-' || substr(m.message_id, 13, 4) || '-'
 || substr(m.message_id, 17, 4) || '-' || substr(m.message_id, 21))

-- name: _milliseconds
round(({microseconds:{it}}) / 1000.0)
