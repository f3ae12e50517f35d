"""The ways to a target: a signed request to a webhook, and a mail.

An error says what is wrong without the address: it may hold a secret, and the error is written into a row.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import socket
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from django.core.mail import EmailMessage

from django_mq.alerts import message
from django_mq.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from django_mq.alerts.models import AlertNotice
    from django_mq.engine.decisions.alerts import AlertTarget

#: The longest time of a request, from the connection to the answer.
REQUEST_SECONDS: Final = 10.0


class NotSentError(MQError):
    """An alert could not be sent."""


def send(target: AlertTarget, notices: Sequence[AlertNotice], now: datetime) -> None:
    """Send these to the target, in one message. Raises NotSentError."""
    if target.webhook:
        body = json.dumps(message.payload(notices, now)).encode()
        post(target.webhook, body, headers_of(str(message.id_of(notices)), now, body, target.secret))
    else:
        mail(target.email, message.subject(notices), message.text(notices))


def headers_of(id_: str, now: datetime, body: bytes, secret: bytes) -> dict[str, str]:
    """Return the headers of a request, signed as the specification of Standard Webhooks says."""
    moment = str(int(now.timestamp()))
    headers = {"content-type": "application/json", "webhook-id": id_, "webhook-timestamp": moment}
    if secret:
        signed = hmac.new(secret, b".".join((id_.encode(), moment.encode(), body)), hashlib.sha256).digest()
        headers["webhook-signature"] = f"v1,{base64.b64encode(signed).decode()}"
    return headers


def post(address: str, body: bytes, headers: Mapping[str, str], seconds: float = REQUEST_SECONDS) -> None:
    """Post the body. A redirect is an error, and of the answer only its status is read. Raises NotSentError."""
    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    # The timeout of a socket is for each wait, so a server that answers byte by byte would never meet it.
    late = threading.Event()
    end = threading.Timer(seconds, _end, (connection, late))
    end.daemon = True
    end.start()
    try:
        connection.request("POST", f"{parts.path or '/'}{parts.query and f'?{parts.query}'}", body, dict(headers))
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise NotSentError(_reason(error, is_late=late.is_set())) from error
    finally:
        end.cancel()
        connection.close()
    if 300 <= status < 400:
        raise NotSentError(f"The webhook answers with a redirect ({status}): give its final address.")
    if not 200 <= status < 300:
        raise NotSentError(f"The webhook answers with the status {status}.")


def _end(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    """End a request, also one that waits for an answer."""
    late.set()
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def _reason(error: Exception, *, is_late: bool) -> str:
    """Return why there was no answer, by the kind of the error: its text may hold the address."""
    if is_late or isinstance(error, TimeoutError):
        return "The webhook has not answered in time."
    if isinstance(error, socket.gaierror):
        return "The name of the webhook's host is unknown."
    if isinstance(error, ssl.SSLCertVerificationError):
        return "The certificate of the webhook's host is not valid."
    return f"The webhook cannot be reached, or gives no answer ({type(error).__name__})."


def mail(addresses: Sequence[str], subject: str, text: str) -> None:
    """Send a mail by the project's EMAIL settings. Raises NotSentError."""
    try:
        EmailMessage(subject, text, None, list(addresses)).send()
    except Exception as error:
        # A backend of the project may raise anything, and its text may hold an address.
        name = type(error).__name__
        raise NotSentError(f"The mail was not accepted ({name}): see the settings of Django's mail.") from error
