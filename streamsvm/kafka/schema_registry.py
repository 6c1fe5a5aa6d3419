"""The schema registry: a schema's text by its id, and the id of a schema that we write by.

A schema of an id never changes, so each is asked for once. What the registry plainly says does not exist is told apart
from whatever else goes wrong on the way to it: that may pass, and nothing is decided by it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final, Protocol

from streamsvm.errors import ConfigurationError, TransientError

NOT_FOUND: Final = 404
NO_SUCH_SCHEMA: Final = 40403
"""The registry's own code; a bare 404 is a wrong address or a proxy, not an answer."""
REFUSED: Final = (401, 403)
INVALID: Final = (409, 422)


class RegistryOptions(Protocol):
    """How to reach a schema registry, and as whom; `RegistryConfig` says what each option means."""

    url: str
    username: str
    password: str
    token: str
    ca_file: Path | None
    timeout_s: float


class RegistryUnavailable(TransientError):
    """The schema registry does not answer, or not as one."""


class SchemaRegistry:
    """A client of one registry; blocks at most about `registry.timeout_s` for each of its addresses a call.

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
        self._url = config.url
        self._library = _library()
        options: dict[str, Any] = {"url": config.url, "timeout": config.timeout_s, "max.retries": 0}
        if config.username:
            options["basic.auth.user.info"] = f"{config.username}:{config.password}"
        if config.token:
            options |= {
                "bearer.auth.credentials.source": "STATIC_TOKEN",
                "bearer.auth.token": config.token,
                "bearer.auth.logical.cluster": "",
                "bearer.auth.identity.pool.id": "",
            }
        if config.ca_file is not None:
            options["ssl.ca.location"] = str(config.ca_file)
        try:
            self._client = self._library.SchemaRegistryClient(options)
        except (ValueError, TypeError, OSError) as error:
            raise ConfigurationError(
                f"the schema registry {config.url} cannot be used: {_one_line(error)}",
                "Correct the options of section [registry].",
            ) from None

    def schema(self, schema_id: int) -> str | None:
        """Return the text of a schema; None if the registry says there is none of this id.

        Raises
        ------
        RegistryUnavailable
            If it does not answer.
        ConfigurationError
            If it refuses us.
        """
        try:
            text: str | None = self._client.get_schema(schema_id).schema_str
        except Exception as error:
            if self._code_of(error) == (NOT_FOUND, NO_SUCH_SCHEMA):
                return None
            raise self._failure(error, f"asked for schema {schema_id}") from error
        return text

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
            schema_id: int = self._client.register_schema(subject, self._library.Schema(schema, "AVRO"))
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
            return ConfigurationError(what, "Correct registry.username, registry.password or registry.token.")
        return RegistryUnavailable(
            what, "Check that the registry runs, and that registry.url is the base address of its API."
        )


def _library() -> Any:
    try:
        return importlib.import_module("confluent_kafka.schema_registry")
    except ImportError:
        raise ConfigurationError(
            "registry.url is set, but the schema registry client is not installed",
            "Install it: pip install 'streamsvm[avro]'.",
        ) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
