"""The configuration reference, deploy/CONFIGURATION.md, made from the typed settings.

python -m consumers.cli.reference > deploy/CONFIGURATION.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic.fields import FieldInfo

from consumers.options import fields, section_class, sections, shown_default, shown_type
from consumers.settings_sockets import PAGES, SectionPage
from streamsvm.config import ModelConfig
from streamsvm.sockets import DAEMONS, plugged

HEAD: Final = """\
# Configuration

Made from the settings' own declarations: `python -m consumers.cli.reference > deploy/CONFIGURATION.md`.

An option stands in a TOML file (`--config FILE` or `STREAMSVM_CONFIG`) as `topic` under `[input]`, in the environment
as `STREAMSVM_INPUT__TOPIC`, or on the command line as `--input-topic`; the last of these counts. `streamsvm config
--effective` shows what is in force. Options of the Kafka client stand under `[kafka]` with librdkafka's own names
(`STREAMSVM_KAFKA__BOOTSTRAP_SERVERS`). [Secrets](../SECURITY.md#secrets).

In parentheses stands the default, or the type of an option that has none; of choices the default is bold. What
*decides the model* is hashed into every lineage. A trainer refuses another value, and prints the way out; but `[svm]`
may [change](OPERATIONS.md#other-options).
"""


def markdown() -> str:
    """Return the text of the reference."""
    pages = plugged(PAGES, SectionPage, DAEMONS)
    lines = [line for section in sections() for line in _section(section, pages)]
    return "\n".join([HEAD, *lines]).rstrip() + "\n"


def _section(section: str, pages: Sequence[SectionPage]) -> Iterator[str]:
    yield from (page.before for page in pages if page.section == section)
    deciding = (*ModelConfig.model_fields, *(page.section for page in pages if page.decides))
    decides = " (decides the model)" if section in deciding else ""
    yield f"## {f'[{section}]' if section else 'Without a section'}{decides}\n"
    if section:
        yield f"{section_class(section).__doc__ or ''}".split("\n\n")[0].strip() + "\n"
    for name, info in fields(section).items():
        yield f"- `{name}` ({_value(info)}): {info.description or ''}"
    yield ""


def _value(info: FieldInfo) -> str:
    """Return an option's choices, its default in bold; else its default; its type where it has neither."""
    default, type_ = shown_default(info), shown_type(info)
    if "|" not in type_:
        return default or type_
    choices = type_.split("|")
    if default and default not in choices:
        return f"**{default}**, or {type_}"
    return "|".join(f"**{choice}**" if choice == default else choice for choice in choices)


if __name__ == "__main__":
    sys.stdout.write(markdown())
