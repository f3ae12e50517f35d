-- name: _wanted. The condition of a claim by selectors on the message m; other claims have none.

-- name: _unknown
NULL

-- name: _text_of
{number_of:{it}}

-- name: _number_of
{it}

-- name: _alike. Compares a text with a pattern; capital letters are others than small ones.
({it}) LIKE

-- name: _pattern
%({it}_like)s ESCAPE '|'
