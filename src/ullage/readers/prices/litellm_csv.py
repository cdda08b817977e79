"""LiteLLM's catalogue as a table: one row a model, in USD per million tokens.

Columns model, provider, mode, input_usd_per_mtok, output_usd_per_mtok, cache_read_usd_per_mtok,
cache_write_usd_per_mtok, batch_in, batch_out, priority_in, flex_in, source. Priority and flex have no output price in
this table, so a token of output in those tiers stays without one.
"""

from __future__ import annotations

from ullage.prices.book import Tier, TokenKind
from ullage.prices.price_list import Gathering, PriceList
from ullage.readers.prices.price_file import PriceFile, Row, amount
from ullage.readers.prices.token_rows import MODES, TokenRow, add_tokens, bare_model

FORMAT = "a table of token prices"
_COLUMNS = ("model", "provider", "mode", "input_usd_per_mtok", "output_usd_per_mtok")
_TIERS = {
    Tier.STANDARD: {
        TokenKind.INPUT: "input_usd_per_mtok",
        TokenKind.OUTPUT: "output_usd_per_mtok",
        TokenKind.CACHED_READ: "cache_read_usd_per_mtok",
        TokenKind.CACHE_WRITE: "cache_write_usd_per_mtok",
    },
    Tier.BATCH: {TokenKind.INPUT: "batch_in", TokenKind.OUTPUT: "batch_out"},
    Tier.PRIORITY: {TokenKind.INPUT: "priority_in"},
    Tier.FLEX: {TokenKind.INPUT: "flex_in"},
}


def recognise(file: PriceFile) -> bool:
    return file.has(*_COLUMNS)


def read(file: PriceFile) -> PriceList:
    dated = file.date()
    into = Gathering()
    for number, row in enumerate(file.rows, 2):
        if row["mode"] not in MODES:
            into.drop(f"mode {row['mode'] or 'not stated'}")
            continue
        where = row.get("source", "")
        source = file.source(f"{FORMAT}; the provider's list: {where}" if where else FORMAT, dated)
        for tier, columns in _TIERS.items():
            amounts = {kind: _per_token(file, row, number, column) for kind, column in columns.items()}
            if tier is Tier.STANDARD or any(each is not None for each in amounts.values()):
                model = bare_model(row["provider"], row["model"])
                add_tokens(
                    TokenRow(provider=row["provider"], model=model, tier=tier, amounts=amounts, source=source), into
                )
    return into.finished(file=file.file, format_name=FORMAT, rows=len(file.rows))


def _per_token(file: PriceFile, row: Row, number: int, column: str) -> float | None:
    per_million = amount(file, row, number, column)
    return None if per_million is None else per_million / 1e6
