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
