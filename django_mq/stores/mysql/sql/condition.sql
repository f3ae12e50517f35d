-- name: _text_of. As bytes: other comparisons take capital letters for small ones, and ignore spaces at the end.
CAST({it} AS BINARY)

-- name: _alike. By characters, not bytes.
CONVERT({it} USING utf8mb4) COLLATE utf8mb4_bin LIKE

-- name: _header
json_extract(m.headers, concat('$.', json_quote({it})))

-- name: _header_text
CASE WHEN json_type({header:{it}}) = 'STRING' THEN CAST(json_unquote({header:{it}}) AS BINARY) END

-- name: _header_digits
trim(LEADING '-' FROM {header:{it}})

-- name: _header_number. Larger numbers than a double holds are no value; a cast would make the largest double of them. Only
-- whole numbers have so many digits.
CASE WHEN json_type({header:{it}}) IN ('INTEGER', 'DOUBLE', 'DECIMAL', 'UNSIGNED INTEGER')
      AND (char_length({header:{it}}) < 309 OR (char_length({header_digits:{it}}) <= 309 AND {header_digits:{it}} <=
           '179769313486231570814527423731704356798070567525844996598917476803157260780028538760589558632766878171540458953514382464234321326889464182768467546703537516986049910576551282076245490090389328944075868508455133942304583236903222948165808559332123348274797826204144723168738177180919299881250404026184124858368'))
     THEN CAST({header:{it}} AS DOUBLE) END

-- name: _header_truth
CASE WHEN json_type({header:{it}}) = 'BOOLEAN' THEN json_unquote({header:{it}}) = 'true' END

-- name: _id_text
CAST(insert(insert(insert(insert(replace(lower(CAST(m.message_id AS CHAR)), '-', ''),
    21, 0, '-'), 17, 0, '-'), 13, 0, '-'), 9, 0, '-') AS BINARY)

-- name: _milliseconds
round(timestampdiff(MICROSECOND, '1970-01-01', {it}) / 1000)
