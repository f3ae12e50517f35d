"""Encrypt bodies, with keys that can be rotated. Needs ``pip install 'django-mq[encryption]'``.

A body is encrypted when its message is published, and stays so in the queue, in the history and in the archive. It
is decrypted where code reads it: for a handler, for Celery when a worker has claimed its task, by ``browse``, and
for a result of Django's tasks. The keys are those of the setting ``ENCRYPTION_KEYS``; the first one encrypts.

The bytes of an encrypted body begin with the id of its key. What follows is a token of Fernet (AES in CBC mode,
with an HMAC that finds changes) as bytes, over the content encoding of the body and the body.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django_mq import conf
from django_mq.delivery.codecs import ENCRYPTED, key_of, marked_with_key, without_key
from django_mq.delivery.publisher import with_headers
from django_mq.errors import CorruptMessage, LostKey, UnusableMiddleware
from django_mq.stores.records import headers_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.fernet import Fernet

    from django_mq.seams.middleware import Proceed, Publication
    from django_mq.stores.records import NewMessage

#: Headers in which Celery describes the arguments of a task.
DESCRIBING = ("argsrepr", "kwargsrepr")


class EncryptionMiddleware:
    """Encrypt the bodies of messages. Name it last, so that it is around what other middleware has changed."""

    def __init__(self) -> None:
        keys = self.keys()
        if not keys:
            raise UnusableMiddleware("DJANGO_MQ['ENCRYPTION_KEYS'] has no key; add one, as its page says.")
        self._fernets = {key_id: _fernet(key_id, key) for key_id, key in keys.items()}
        self._key_id = next(iter(keys))

    def keys(self) -> Mapping[str, str]:
        """Return the keys by their ids, the one that encrypts first. Override it to read them elsewhere."""
        return conf.load().ENCRYPTION_KEYS

    def wants(self, message: NewMessage) -> bool:  # noqa: ARG002 - for subclasses
        """Whether to encrypt the body of a message. Override it to leave some out."""
        return True

    def publish(self, publication: Publication, proceed: Proceed) -> Any:
        """Encrypt the body of each message, and hide the headers in which Celery describes it."""
        return proceed(replace(publication, messages=[self._encrypted(each) for each in publication.messages]))

    def _encrypted(self, message: NewMessage) -> NewMessage:
        if message.content_encoding == ENCRYPTED or not self.wants(message):
            return message
        body, content_encoding = self.encode(message.body, message.content_encoding)
        encrypted = replace(message, body=body, content_encoding=content_encoding)
        headers = headers_in(message.headers)
        described = {name: ENCRYPTED for name in DESCRIBING if headers.get(name)}
        return with_headers(encrypted, {**headers, **described}) if described else encrypted

    def encode(self, body: bytes, content_encoding: str) -> tuple[bytes, str]:
        """Return the encrypted bytes and their content encoding."""
        token = self._fernets[self._key_id].encrypt(content_encoding.encode() + b"\x00" + body)
        return marked_with_key(self._key_id, urlsafe_b64decode(token)), ENCRYPTED

    def decode(self, body: bytes, content_encoding: str) -> tuple[bytes, str] | None:
        """Return the bytes and the content encoding that they had before. Raises LostKey and CorruptMessage."""
        key_id = key_of(body) if content_encoding == ENCRYPTED else None
        if key_id is None:
            return None
        if key_id not in self._fernets:
            raise LostKey(key_id)
        # Only now: what is imported has told that it is there.
        from cryptography.fernet import InvalidToken  # noqa: PLC0415

        try:
            opened = self._fernets[key_id].decrypt(urlsafe_b64encode(without_key(body)))
        except InvalidToken:
            raise CorruptMessage(
                f"The body was changed, or the key {key_id!r} of DJANGO_MQ['ENCRYPTION_KEYS'] is another one."
            ) from None
        encoding, _, plain = opened.partition(b"\x00")
        return plain, encoding.decode()


def _fernet(key_id: str, key: str) -> Fernet:
    try:
        from cryptography.fernet import Fernet  # noqa: PLC0415 - an optional package
    except ImportError as error:
        raise UnusableMiddleware(f"{error}; pip install 'django-mq[encryption]'.") from error
    try:
        return Fernet(key)
    except ValueError:
        # Neither the key nor the error, which may quote it.
        raise UnusableMiddleware(
            f"The key {key_id!r} of DJANGO_MQ['ENCRYPTION_KEYS'] is no key of Fernet; make one by"
            " cryptography.fernet.Fernet.generate_key()."
        ) from None
