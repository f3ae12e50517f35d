"""What operators did.

words.py  how the pages say what was chosen, and what was done
admin.py  the list of acts, the page of one, and the button that puts messages back
"""
