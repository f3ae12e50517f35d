"""Alerts: what needs a look, with a beginning and an end, in rows, by mail and by webhook.

The leader of the workers looks every half minute. A crash between a request and the row that notes it sends the
request again, with the same id.

models.py    the rows: alerts, and what targets are told of them
observed.py  what needs a look now: alerts of the overview, and findings of the doctor and of extensions
recorder.py  writes which alerts have begun and are over, and what to send
sender.py    sends it, and notes what came of it
message.py   what targets get: words, and values for programs
channels.py  a signed request to a webhook, and a mail
extension.py the duty, and what is found about the sending itself
"""
