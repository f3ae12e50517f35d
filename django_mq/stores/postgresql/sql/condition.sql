-- name: _portion. What a claim across several queues, or for several handlers, reads of each.
SELECT m.id, m.priority, m.level, m.place
FROM django_mq_message m
WHERE m.state = 1 AND m.queue_id = q.id
ORDER BY m.level DESC, m.place, m.id LIMIT %(candidates)s

-- name: _portion_wanted
{beyond_cursor}
LIMIT %(candidates)s

-- name: _beyond_cursor. A claim by selectors begins in each level where the cursor is.
SELECT beyond.id, beyond.priority, beyond.level, beyond.place
FROM unnest(%(levels)s::int[], %(places)s::bigint[], %(passed)s::bigint[]) AS from_here(level, place, id)
CROSS JOIN LATERAL (
    SELECT m.id, m.priority, m.level, m.place
    FROM django_mq_message m
    WHERE m.state = 1 AND m.level = from_here.level AND (m.place, m.id) > (from_here.place, from_here.id)
      AND m.queue_id = q.id {wanted}
    ORDER BY m.place, m.id LIMIT %(candidates)s
) beyond

-- name: _portion_declared. A part of a claim by a declared selector looks where the index has what matches.
(
    {beyond_cursor}
    WHERE given.position <> ALL(%(met_by)s::bigint[])
    LIMIT %(candidates)s
) UNION ALL (
    SELECT known.id, known.priority, known.level, known.place
    FROM unnest(%(met_by)s::bigint[], %(meets)s::bigint[]) AS met(position, meets)
    CROSS JOIN LATERAL (
        SELECT m.id, m.priority, m.level, m.place
        FROM django_mq_message m
        WHERE m.state = 1 AND m.queue_id = q.id AND m.meets = met.meets {wanted}
        ORDER BY m.level DESC, m.place, m.id LIMIT %(candidates)s
    ) known
    WHERE met.position = given.position
)

-- name: _numbered
{portion}

-- name: _numbered_wanted
SELECT read.*, row_number() OVER (ORDER BY read.level DESC, read.place, read.id) AS portion_turn FROM ({portion}) read

-- name: _turns
row_number() OVER own AS turn, min(r.priority) OVER own AS urgency

-- name: _turns_wanted. A message beyond the limit of its handler, read in case that others are locked, takes no turn.
count(*) FILTER (WHERE {within}) OVER own AS turn, min(r.priority) FILTER (WHERE {within}) OVER own AS urgency,
            r.portion_turn, array_position(%(queues)s::text[], given.name) AS queue, row_number() OVER own AS queue_turn

-- name: _within
r.portion_turn <= (%(limits)s::bigint[])[given.position]

-- name: _in_turn
walk.position

-- name: _in_turn_wanted
walk.queue, walk.queue_turn

-- name: _portion_turn. What the limit of a queue, or of one handler of it, counts.
walk.turn

-- name: _portion_turn_wanted
walk.portion_turn

-- name: _position. The number, from 1, of what a claim across several queues reads.
given.position

-- name: _unknown
NULL::boolean

-- name: _text_of
({it})::text

-- name: _number_of. Through its text, as a number of the driver would be rounded.
({it})::text::numeric

-- name: _header_text
CASE WHEN jsonb_typeof(m.headers -> {it}::text) = 'string' THEN m.headers ->> {it}::text END

-- name: _header_number. Larger numbers than a double holds are no value.
CASE WHEN jsonb_typeof(m.headers -> {it}::text) = 'number'
     THEN CASE WHEN abs((m.headers -> {it}::text)::numeric) <=
               179769313486231570814527423731704356798070567525844996598917476803157260780028538760589558632766878171540458953514382464234321326889464182768467546703537516986049910576551282076245490090389328944075868508455133942304583236903222948165808559332123348274797826204144723168738177180919299881250404026184124858368
               THEN (m.headers -> {it}::text)::numeric END END

-- name: _header_truth
CASE WHEN jsonb_typeof(m.headers -> {it}::text) = 'boolean' THEN (m.headers -> {it}::text)::boolean END

-- name: _id_text
m.message_id::text

-- name: _milliseconds
round(extract(epoch FROM {it}) * 1000)
