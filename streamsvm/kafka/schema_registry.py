"""The schema registry: a schema's text by its id, and the id of a schema that we write by.

A schema of an id never changes, so each is asked for once, while it is among those kept. What the
registry plainly says does not exist is told apart from whatever else goes wrong on the way to it: that may pass, and
nothing is decided by it. So may a refusal of credentials that were accepted before: a registry, or a proxy before it,
that starts again.

Invariant: a hostile server in the registry's place cannot cost more than a bounded time and memory. An answer has a
largest size and a time by which it must have come as a whole, is never unpacked, and leads to no other address.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, TimeoutError as TookTooLong
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from streamsvm.errors import ConfigurationError, InvalidPoint, TransientError

LARGEST_ANSWER: Final = 8 << 20
"""Bytes. A schema may have a million characters, of which JSON escapes each by at most six bytes."""
MOST_KEPT: Final = 256
MOST_KEPT_CHARACTERS: Final = 16 << 20
"""Of the schemas that are kept; the oldest of more are asked for again."""
ANSWER_TIMEOUT_S = 2.0
"""Seconds to wait for an answer, before the registry is asked again: it answers in milliseconds, or not at all."""
GRACE_S: Final = 0.5

NO_SUBJECT: Final = (404, 40401)
NO_VERSION: Final = (404, 40402)
NO_SCHEMA: Final = (404, 40403)
"""Status and the registry's own code; a bare 404 is a wrong address or a proxy, not an answer."""
MOST_REFERENCES: Final = 32
"""Files that a schema may refer to, each a question to the registry."""
LARGEST_ID: Final = (1 << 31) - 1
"""No registry has so many schemas."""
REFUSED: Final = (401, 403)
INVALID: Final = (409, 422)

Answer = TypeVar("Answer")


class RegistryOptions(Protocol):
    """How to reach a schema registry, and as whom; `RegistryConfig` says what each option means."""

    url: str
    username: str
    password: str
    ca_file: Path | None


class RegistryUnavailable(TransientError):
    """The schema registry does not answer, or not as one."""


class _TooLarge(Exception):
    """An answer has more than `LARGEST_ANSWER` bytes."""


class SchemaRegistry:
    """A client of one registry; blocks at most about `ANSWER_TIMEOUT_S` for each of its addresses a call.

    Parameters
    ----------
    config : RegistryOptions
        With an address.

    Raises
    ------
    ConfigurationError
        If the client is not installed, or the options cannot be used.
    """

    def __init__(self, config: RegistryOptions) -> None:
        self._config = config
        self._url = config.url
        self._library = _library()
        self._patience_s = ANSWER_TIMEOUT_S * (1 + config.url.count(",")) + GRACE_S
        self._kept: OrderedDict[int | str, str] = OrderedDict()
        self._accepted = False
        self._client = self._make_client()

    def _make_client(self) -> Any:
        config = self._config
        options: dict[str, Any] = {"url": config.url, "timeout": ANSWER_TIMEOUT_S, "max.retries": 0}
        if config.username:
            options["basic.auth.user.info"] = f"{config.username}:{config.password}"
        if config.ca_file is not None:
            options["ssl.ca.location"] = str(config.ca_file)
        try:
            client = self._library.SchemaRegistryClient(options)
            session = client._rest_client.session  # the library has no option for what follows
            session.headers["Accept-Encoding"] = "identity"
            session.follow_redirects = False
            session.event_hooks = {"response": [_bound]}
        except (ValueError, TypeError, OSError, AttributeError) as error:
            raise ConfigurationError(
                f"the schema registry {config.url} cannot be used: {_one_line(error)}",
                "Correct the options of section [registry].",
            ) from None
        return client

    def schema(self, schema_id: int) -> str | None:
        """Return the text of a schema; None if the registry says there is none of this id.

        Raises
        ------
        InvalidPoint
            If it is larger than any that is read.
        RegistryUnavailable
            If it does not answer.
        ConfigurationError
            If it refuses us.
        """
        if schema_id in self._kept:
            return self._kept[schema_id]
        found = self._described(schema_id, partial(_schema, schema_id=schema_id))
        if found is None:
            return None
        self._keep(schema_id, found.schema_str)
        return str(found.schema_str)

    def files(self, schema_id: int) -> Mapping[str, str] | None:
        """Return a Protobuf schema's text under the empty name, and that of each file that it refers to under its name.

        Nothing is kept here: the caller keeps what it makes of them. None if the registry says there is no such schema.

        Raises
        ------
        InvalidPoint
            If it is larger than any that is read, is not Protobuf, or has too many references.
        RegistryUnavailable, ConfigurationError
            As `schema`.
        """
        found = self._described(schema_id, partial(_schema, schema_id=schema_id))
        if found is None:
            return None
        if found.schema_type != "PROTOBUF":
            raise InvalidPoint(
                "incompatible_schema", f"schema {schema_id} is {_one_line(found.schema_type or 'AVRO')}, not PROTOBUF"
            )
        texts = {"": str(found.schema_str)}
        waiting = list(found.references or ())
        while waiting:
            one = waiting.pop()
            if one.name in texts:
                continue
            if len(texts) > MOST_REFERENCES:
                what = f"schema {schema_id} refers to more than {MOST_REFERENCES} files"
                raise InvalidPoint("incompatible_schema", what)
            other = self._described(schema_id, partial(_version, subject=str(one.subject), version=one.version))
            if other is None:
                what = f"schema {schema_id} refers to {str(one.name)[:80]}, which the registry does not have"
                raise InvalidPoint("incompatible_schema", what)
            texts[str(one.name)] = str(other.schema_str)
            waiting += other.references or ()
        return texts

    def _described(self, schema_id: int, question: Callable[[Any], Any]) -> Any:
        """Return a schema as the client describes it; None if the registry says there is none."""
        try:
            found: Any = self._ask(question)
        except _TooLarge:
            raise InvalidPoint(
                "incompatible_schema",
                f"schema {schema_id} does not describe points: it has over {LARGEST_ANSWER} bytes",
            ) from None
        except Exception as error:
            if self._code_of(error) in (NO_SCHEMA, NO_VERSION, NO_SUBJECT):
                return None
            raise self._failure(error, f"asked for schema {schema_id}") from error
        if not isinstance(found.schema_str, str):
            raise self._failure(TypeError("the answer holds no schema"), f"asked for schema {schema_id}")
        return found

    def _keep(self, schema_id: int, text: str) -> None:
        self._kept[schema_id] = text
        while len(self._kept) > MOST_KEPT or sum(map(len, self._kept.values())) > MOST_KEPT_CHARACTERS:
            self._kept.popitem(last=False)

    def _ask(self, question: Callable[[Any], Answer]) -> Answer:
        """Return an answer that came in time.

        The client's own timeout is that of each read, which a byte now and then satisfies for ever. So a thread waits
        for the answer, and is left behind without its connections if there is none: then it ends by itself.
        """
        client, answer = self._client, Future[Answer]()

        def wait() -> None:
            try:
                answer.set_result(question(client))
            except Exception as error:  # noqa: BLE001 - raised where it was asked
                answer.set_exception(error)

        threading.Thread(target=wait, name="schema-registry", daemon=True).start()
        try:
            found = answer.result(self._patience_s)
        except self._library.SchemaRegistryError as error:
            self._accepted |= self._code_of(error) in (NO_SCHEMA, NO_VERSION, NO_SUBJECT)
            raise
        except TookTooLong:
            if answer.done():  # it is the answer's own error
                raise
            self._client = self._make_client()
            with suppress(Exception):
                client.close()
            raise RegistryUnavailable(f"the answer was not complete within {self._patience_s:g} s") from None
        else:
            self._accepted = True
            return found
        finally:
            self._client.clear_caches()  # which have no bound

    def register(self, subject: str, schema: str) -> int:
        """Return the id of an Avro schema, which is registered under the subject if it is not yet.

        Raises
        ------
        RegistryUnavailable
            If it does not answer.
        ConfigurationError
            If it refuses us or the schema.
        """
        try:
            described = self._library.Schema(schema, "AVRO")
            schema_id: int = self._ask(lambda client: client.register_schema(subject, described))
        except Exception as error:
            if self._code_of(error)[0] in INVALID:
                raise ConfigurationError(
                    f"the schema registry {self._url} rejects the schema of {subject}: {_one_line(error)}",
                    "Write to another topic, or change the compatibility level of this subject in the registry.",
                ) from error
            raise self._failure(error, f"registering the schema of {subject}") from error
        return schema_id

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _code_of(self, error: Exception) -> tuple[int, int]:
        if isinstance(error, self._library.SchemaRegistryError):
            return int(error.http_status_code), int(error.error_code or 0)
        return 0, 0

    def _failure(self, error: Exception, doing: str) -> ConfigurationError | RegistryUnavailable:
        what = f"the schema registry {self._url}, {doing}: {_one_line(error)}"
        if self._code_of(error)[0] in REFUSED:
            remedy = "Correct registry.username or registry.password."
            if not self._accepted:
                return ConfigurationError(what, remedy)
            return RegistryUnavailable(f"{what}; it accepted these credentials before", f"If it stays so: {remedy}")
        if "certificate verify failed" in what.lower():
            return RegistryUnavailable(
                what,
                "Set registry.ca_file to the certificate of the authority that signed the registry's, and registry.url "
                "to a name that the registry's certificate has.",
            )
        return RegistryUnavailable(
            what, "Check that the registry runs, and that registry.url is the base address of its API."
        )


def _bound(response: Any) -> None:
    """Let the body of an answer end at `LARGEST_ANSWER`; called with its head, before any of the body is read."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ValueError("the answer is packed, which nobody asked for")
    whole = response.stream
    http = sys.modules[type(response).__module__.partition(".")[0]]  # httpx, or what the client takes for it

    class Bounded(http.SyncByteStream):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Iterator[bytes]:
            taken = 0
            for part in whole:
                taken += len(part)
                if taken > LARGEST_ANSWER:
                    raise _TooLarge
                yield part

        def close(self) -> None:
            whole.close()

    response.stream = Bounded()


def _library() -> Any:
    try:
        return importlib.import_module("confluent_kafka.schema_registry")
    except ImportError:
        raise ConfigurationError(
            "registry.url is set, but the schema registry client is not installed",
            "Install it: pip install '.[avro]' in the folder of the sources.",
        ) from None


def _schema(client: Any, *, schema_id: int) -> Any:
    return client.get_schema(schema_id)


def _version(client: Any, *, subject: str, version: int) -> Any:
    return client.get_version(subject, version).schema


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
