"""Names find their sheet however people write them; what is unknown or ambiguous says what is near."""

from __future__ import annotations

import pytest

from ullage.errors import InputError
from ullage.facts.catalogue import Catalogue, bare_name, short_name
from ullage.facts.device import devices
from ullage.facts.model_sheet import models
from ullage.facts.sheet import Field, SheetKind

KIND = SheetKind(
    noun="device",
    folder="devices",
    howto="docs/howto/add-a-device.md",
    texts={"title": True},
    fields={"memory": Field(unit="bytes", meaning="memory", required=True)},
)


def sheet(title: str, aliases: str = "", memory: str = "1 GiB") -> str:
    return f"""
title = "{title}"
aliases = [{aliases}]
source = "s"
sources.s = {{ what = "sheet", where = "here", date = 2026-01-01, evidence = "estimated" }}
values.memory = "{memory}"
"""


CATALOGUE = Catalogue(kind=KIND, sheets={}).overlaid(
    {
        "h100-sxm.toml": sheet("NVIDIA H100 SXM", '"H100", "NVIDIA H100 80GB HBM3"'),
        "a100-40gb.toml": sheet("NVIDIA A100 40GB", '"A100"'),
        "a100-80gb.toml": sheet("NVIDIA A100 80GB", '"A100", "A100-SXM4-80GB"'),
    }
)


@pytest.mark.parametrize(
    "name", ["h100-sxm", "H100-SXM", " h100 sxm ", "H100", "nvidia h100", "NVIDIA H100 80GB HBM3", "h100_sxm"]
)
def test_a_name_is_found_however_it_is_written(name: str) -> None:
    assert CATALOGUE.find(name).name == "h100-sxm"


def test_a_shared_alias_names_the_candidates() -> None:
    with pytest.raises(InputError, match=r"pool\.device = 'A100': can mean a100-40gb or a100-80gb"):
        CATALOGUE.find("A100", field="pool.device")


@pytest.mark.parametrize("catalogue", [devices(), models()], ids=lambda each: each.kind.folder)
def test_no_short_name_is_shared(catalogue: Catalogue) -> None:
    """A name that people shorten finds one sheet: two would make an answer depend on which came first."""
    owners: dict[str, set[str]] = {}
    for each in catalogue:
        for name in (each.name, *each.aliases):
            owners.setdefault(short_name(name), set()).add(each.name)
    assert {name: found for name, found in owners.items() if len(found) > 1} == {}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("llama-3.3-70b", "llama-3.1-70b"),
        ("Llama-3.3-70B-Instruct", "llama-3.1-70b"),
        ("llama3.1:8b", "llama-3.1-8b"),
        ("qwen3-32b", "qwen3-32b"),
        ("qwen-3-32b", "qwen3-32b"),
        ("gemma-3-27b", "gemma-3-27b"),
    ],
)
def test_models_are_found_by_the_short_names_people_use(name: str, found: str) -> None:
    assert models().find(name).name == found


def test_an_unknown_name_names_the_nearest_and_how_to_add_one() -> None:
    with pytest.raises(InputError, match=r"'h10-sxm'.*h100-sxm.*add-a-device"):
        CATALOGUE.find("h10-sxm")


def test_search_wants_every_word() -> None:
    assert [each.name for each in CATALOGUE.search("a100")] == ["a100-40gb", "a100-80gb"]
    assert [each.name for each in CATALOGUE.search("nvidia 80gb a100")] == ["a100-80gb"]
    assert CATALOGUE.search("tpu") == ()


def test_a_users_file_lies_over_ours_and_a_new_one_is_added() -> None:
    mine = CATALOGUE.overlaid(
        {
            "h100-sxm.toml": sheet("Ours", memory="2 GiB").replace('title = "Ours"', ""),
            "x1.toml": sheet("X1"),
        }
    )
    assert mine.find("h100").values["memory"].value == 2 * 2**30
    assert mine.find("h100").texts["title"] == "NVIDIA H100 SXM"
    assert mine.find("x1").name == "x1"
    assert CATALOGUE.find("h100").values["memory"].value == 2**30, "the catalogue below is left as it was"
    assert len(mine) == len(CATALOGUE) + 1


@pytest.mark.parametrize("file", ["H 100.toml", "../x.toml", ".toml", "x/y.toml"])
def test_a_file_name_that_is_no_name_is_refused(file: str) -> None:
    with pytest.raises(InputError, match="is not a name for a fact file"):
        CATALOGUE.overlaid({file: sheet("X")})


def test_bare_names_drop_vendor_case_and_punctuation() -> None:
    assert bare_name("AMD Instinct MI300X") == "mi300x"
    assert bare_name("NVIDIA") == "nvidia"
