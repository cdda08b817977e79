"""Tables without lines, so that a page can be read, copied and searched."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text


def plain_table(title: str, *columns: str) -> Table:
    # A title is as long as it is: wrapped at the width of a narrow table it reads like a row.
    whole = Text(title, style="bold", no_wrap=True, overflow="ignore")
    table = Table(title=whole if title else None, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        # A name is never truncated: it is what --explain asks for.
        table.add_column(column, header_style="dim", overflow="fold")
    return table
