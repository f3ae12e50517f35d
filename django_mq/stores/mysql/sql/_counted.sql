-- As elsewhere, for rows of which all are counted or none.
attempts + (%(counted)s AND NOT suspect) - (suspect AND NOT %(counted)s)
