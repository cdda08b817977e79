"""Text that others wrote, on its way out: one function for each medium, and none but these decides what is safe there.

Names of services, classes, tenants, models and files come from plan files, logs and configurations. A terminal acts on
escape sequences, Markdown on a line that starts with `#`, a spreadsheet on a cell that starts with `=`, a shell on `;`.
HTML is made by rich from what `visible` left, and rich escapes it.
"""

from __future__ import annotations

import json
import re
import shlex

_UNSEEN = "\ufffd"
# What a spreadsheet reads as a formula, or skips on its way to one.
_FORMULA = re.compile(r"^[\s'\"]*[=+\-@|%\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$")
# Words that YAML takes for something other than a text, and signs at the start that mean something else to it.
_YAML_WORDS = frozenset({"null", "~", "true", "false", "yes", "no", "on", "off", "y", "n"})
_YAML_PLAIN = re.compile(r"^[\w./+][\w ./+%-]*$")
# Emphasis within a word needs an asterisk: the underscores of our own names are left alone.
_MARKS = re.compile(r"[\\`*\[\]~]|(?<!\w)_|_(?!\w)|^#+(?= |$)", re.MULTILINE)
# In a comment these call people and link issues.
_CALLS = re.compile(r"@(?=\w)|#(?=\d)")


def visible(text: str) -> str:
    """On one line, without anything that a terminal would act on; as long as before, so that styles keep their place.

    >>> visible("a\\x1b[31m\\nb\\u202ec")
    'a\ufffd[31m b\ufffdc'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " if each.isspace() else _UNSEEN for each in text)


def markdown(plain: str) -> str:
    """Text that Markdown shows as it stands: no emphasis, code, link, image, heading, HTML, mention or reference.

    >>> markdown("*a* [b](c) <d> @team #12 chat.mean_rate")
    '\\\\*a\\\\* \\\\[b\\\\](c) &lt;d&gt; &#64;team &#35;12 chat.mean_rate'
    """
    text = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _MARKS.sub(r"\\\g<0>", text)
    return _CALLS.sub(lambda found: f"&#{ord(found.group()):d};", text)


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula; a number stays one. The CSV writer sees to quotes and commas.

    >>> csv_cell("=cmd|'/c calc'!A0"), csv_cell("@SUM(A1)"), csv_cell("-2.50"), csv_cell("chat\\r\\n")
    ("'=cmd|'/c calc'!A0", "'@SUM(A1)", '-2.50', 'chat  ')
    """
    shown = visible(text)
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.match(shown) else shown


def yaml_scalar(text: str) -> str:
    """The text as YAML reads it back, as a text: quoted wherever a plain word would not be.

    >>> yaml_scalar("logs/a-1.csv"), yaml_scalar("it's: #1"), yaml_scalar("null"), yaml_scalar("a\\nb: c")
    ('logs/a-1.csv', "'it''s: #1'", "'null'", '"a\\\\nb: c"')
    """
    if not text.isprintable():
        return '"' + "".join(map(_yaml_escaped, text)) + '"'
    if _YAML_PLAIN.match(text) and text == text.strip() and text.lower() not in _YAML_WORDS:
        return text
    return "'" + text.replace("'", "''") + "'"


def _yaml_escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return "\\n" if character == "\n" else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shell_word(text: str) -> str:
    """One word of a command that a user may paste; in it are no line ends, which a terminal would run.

    >>> shell_word("plan.yaml"), shell_word("my plan; rm x")
    ('plan.yaml', "'my plan; rm x'")
    """
    return shlex.quote(visible(text))


def json_text(encoded: str, *, ascii_only: bool = False) -> str:
    """JSON whose every character can be seen: control, bidirectional and unpaired ones stay escaped.

    >>> json_text('"a\\u202eb\\u00e9"'), json_text('"\\u00e9"', ascii_only=True)
    ('"a\\\\u202ebé"', '"\\\\u00e9"')
    """
    if (encoded.isascii() if ascii_only else True) and encoded.isprintable():
        return encoded
    return "".join(
        each if each == "\n" or (each.isprintable() and (each.isascii() or not ascii_only)) else json.dumps(each)[1:-1]
        for each in encoded
    )
