"""Tables without lines, so that a page can be read, copied and searched."""

from __future__ import annotations

from rich.table import Table


def plain_table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        # A name is never cut: it is what --explain asks for.
        table.add_column(column, header_style="dim", overflow="fold")
    return table
