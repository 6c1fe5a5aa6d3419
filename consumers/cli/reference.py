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
from streamsvm.algorithms import OWN, described, names
from streamsvm.config import ModelConfig
from streamsvm.sockets import DAEMONS, plugged

HEAD: Final = """\
# Configuration

Made from the settings' own declarations: `python -m consumers.cli.reference > deploy/CONFIGURATION.md`.

An option stands in a TOML file (`--config FILE` or `STREAMSVM_CONFIG`) as `topic` under `[input]`, in the environment
as `STREAMSVM_INPUT__TOPIC`, or on the command line as `--input-topic`; the last of these counts. `streamsvm config
--effective` shows what is in force. Options of the Kafka client stand under `[kafka]` with librdkafka's own names
(`STREAMSVM_KAFKA__BOOTSTRAP_SERVERS`). [Secrets](../SECURITY.md#secrets).

In parentheses stands the default, or the type of an option that has none; of choices the default is bold. Sections
marked *decides the model* are hashed into every version's lineage: a trainer refuses to go on under another value and
prints the way out.
"""


EXPERIMENTAL: Final = """\
## Experimental

Algorithms of a paper, to compare with. They decide the model.

"""


def markdown() -> str:
    """Return the text of the reference."""
    pages = plugged(PAGES, SectionPage, DAEMONS)
    lines = [line for section in sections() for line in _section(section, pages)]
    rows = [_experimental(section, name, info) for section in sections() for name, info in fields(section).items()]
    last = EXPERIMENTAL + "\n".join(filter(None, rows)) if any(rows) else ""
    return "\n".join([HEAD, *lines, last]).rstrip() + "\n"


def _section(section: str, pages: Sequence[SectionPage]) -> Iterator[str]:
    yield from (page.before for page in pages if page.section == section)
    deciding = (*ModelConfig.model_fields, *(page.section for page in pages if page.decides))
    decides = " (decides the model)" if section in deciding else ""
    yield f"## {f'[{section}]' if section else 'Without a section'}{decides}\n"
    if section:
        yield f"{section_class(section).__doc__ or ''}".split("\n\n")[0].strip() + "\n"
    for name, info in fields(section).items():
        option = f"{section}.{name}"
        if not described(option) or option in OWN:
            yield _row(name, _value(info, option), (info.description or "").removesuffix(described(option)))
    yield ""


def _value(info: FieldInfo, option: str) -> str:
    """Return an option's choices, its default in bold; else its default; its type where it has neither."""
    default, type_ = shown_default(info), "|".join(OWN.get(option, ())) or shown_type(info)
    if "|" not in type_:
        return default or type_
    choices = type_.split("|")
    if default and default not in choices:
        return f"**{default}**, or {type_}"
    return "|".join(f"**{choice}**" if choice == default else choice for choice in choices)


def _experimental(section: str, name: str, info: FieldInfo) -> str:
    """Return the row of what rooms add to an option, or of an option that only they use; empty: of neither."""
    option = f"{section}.{name}"
    if not (added := described(option).strip()):
        return ""
    if option not in OWN:
        return _row(option, _value(info, option), info.description or "")
    others = [choice for choice in names(option) if choice not in OWN[option]]
    return _row(option, "|".join(others), added)


def _row(name: str, value: str, meaning: str) -> str:
    return f"- `{name}` ({value}): {meaning}"


if __name__ == "__main__":
    sys.stdout.write(markdown())
