"""The reference names every item, purchase, tier, format and column there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.prices.book import Tier, TokenKind
from ullage.prices.items import ITEMS
from ullage.prices.purchase import Purchase
from ullage.readers.prices import PRICE_READERS
from ullage.readers.prices.plain import COLUMNS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "price-book.md").read_text()


@pytest.mark.parametrize("word", [*ITEMS, *map(str, Purchase), *map(str, Tier), *map(str, TokenKind), *COLUMNS])
def test_every_word_is_in_the_reference(word: str) -> None:
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize("item", ITEMS)
def test_every_item_is_in_the_table_with_its_meaning(item: str) -> None:
    assert f"| {ITEMS[item].meaning} |" in PAGE


@pytest.mark.parametrize("name", PRICE_READERS)
def test_every_format_is_in_the_table(name: str) -> None:
    assert f"| {PRICE_READERS[name].what} |" in PAGE
