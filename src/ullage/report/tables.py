"""Tables without lines, so that a page can be read, copied and searched; and bars for them."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

BAR_COLUMNS = 16
_EIGHTHS = " ▏▎▍▌▋▊▉"


def plain_table(title: str, *columns: str) -> Table:
    # A title is as long as it is: wrapped at the width of a narrow table it reads like a row.
    whole = Text(title, style="bold", no_wrap=True, overflow="ignore")
    table = Table(title=whole if title else None, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        # A name is never truncated: it is what --explain asks for.
        table.add_column(column, header_style="dim", overflow="fold")
    return table


def bar(value: float, most: float, *, columns: int = BAR_COLUMNS, ascii_only: bool = False) -> str:
    """A bar in eighths of a character, whole signs in ASCII; what is more than nothing is seen.

    >>> bar(1, 2), bar(0, 2), bar(1, 2, columns=4, ascii_only=True), bar(1, 1000)
    ('████████', '', '##', '▏')
    """
    if value <= 0 or most <= 0 or columns <= 0:
        return ""
    eighths = max(1, round(8 * columns * min(1.0, value / most)))
    if ascii_only:
        return "#" * max(1, round(eighths / 8))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
