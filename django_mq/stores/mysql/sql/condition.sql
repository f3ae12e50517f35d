-- name: _text_of. As bytes: other comparisons take capital letters for small ones, and ignore spaces at the end.
CAST({it} AS BINARY)

-- name: _alike. By characters, not bytes.
CONVERT({it} USING utf8mb4) COLLATE utf8mb4_bin LIKE

-- name: _header
json_extract(m.headers, concat('$.', json_quote({it})))

-- name: _header_text
CASE WHEN json_type({header:{it}}) = 'STRING' THEN CAST(json_unquote({header:{it}}) AS BINARY) END

-- name: _header_number. Larger numbers than a double holds are no value.
CASE WHEN json_type({header:{it}}) IN ('INTEGER', 'DOUBLE', 'DECIMAL', 'UNSIGNED INTEGER')
      AND char_length({header:{it}}) <= 309
     THEN CAST({header:{it}} AS DOUBLE) END

-- name: _header_truth
CASE WHEN json_type({header:{it}}) = 'BOOLEAN' THEN json_unquote({header:{it}}) = 'true' END

-- name: _id_text
CAST(insert(insert(insert(insert(replace(lower(CAST(m.message_id AS CHAR)), '-', ''),
    21, 0, '-'), 17, 0, '-'), 13, 0, '-'), 9, 0, '-') AS BINARY)

-- name: _milliseconds
round(timestampdiff(MICROSECOND, '1970-01-01', {it}) / 1000)
