"""Price files in: one small file a format, one table that lists them, one function that reads any.

To add a format write `recognise` and `read`, and list them in PRICE_READERS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ullage.bounded import bounded_bytes
from ullage.documents import reading
from ullage.errors import InputError
from ullage.prices.price_list import PriceList
from ullage.readers.billing_exports import export_named
from ullage.readers.prices import focus, gpu_catalogue, gpu_history, litellm_csv, litellm_json, plain, skypilot
from ullage.readers.prices.price_file import PriceFile, PriceProvenance, parse

INSTALLED_LITELLM = "litellm"
"""In place of a path: the catalogue of the LiteLLM that is installed."""


@dataclass(frozen=True, kw_only=True)
class PriceReader:
    """A format: what it is, whether a file is of it, and how it is read."""

    what: str
    recognise: Callable[[PriceFile], bool]
    read: Callable[[PriceFile], PriceList]


PRICE_READERS: dict[str, PriceReader] = {
    "gpu_catalogue": PriceReader(what=gpu_catalogue.FORMAT, recognise=gpu_catalogue.recognise, read=gpu_catalogue.read),
    "gpu_history": PriceReader(what=gpu_history.FORMAT, recognise=gpu_history.recognise, read=gpu_history.read),
    "skypilot": PriceReader(what=skypilot.FORMAT, recognise=skypilot.recognise, read=skypilot.read),
    "litellm_csv": PriceReader(what=litellm_csv.FORMAT, recognise=litellm_csv.recognise, read=litellm_csv.read),
    "litellm_json": PriceReader(what=litellm_json.FORMAT, recognise=litellm_json.recognise, read=litellm_json.read),
    "focus": PriceReader(what=focus.FORMAT, recognise=focus.recognise, read=focus.read),
    "plain": PriceReader(what=plain.FORMAT, recognise=plain.recognise, read=plain.read),
}


def read_prices(path: Path | str, provenance: PriceProvenance = PriceProvenance()) -> PriceList:  # noqa: B008
    """Read one file, whoever wrote it; `litellm` in place of a path is the installed catalogue."""
    if str(path) == INSTALLED_LITELLM:
        found, version = litellm_json.installed_catalogue()
        return read_bytes(found.read_bytes(), file=f"litellm {version}", provenance=provenance)
    try:
        data = bounded_bytes(Path(path), field="prices.files", fix="Give a part of it, or a list of prices.")
    except OSError as error:
        raise InputError(
            field="prices.files",
            value=str(path),
            problem=f"cannot be read ({error.strerror})",
            fix="Give the path of a price file.",
        ) from None
    return read_bytes(data, file=str(path), provenance=provenance)


def read_bytes(data: bytes, *, file: str, provenance: PriceProvenance = PriceProvenance()) -> PriceList:  # noqa: B008
    """The prices in these bytes."""
    with reading(file, fix="Give the file whole, as it was written."):
        content = parse(data, file=file, provenance=provenance)
        return PRICE_READERS[recognised(content)].read(content)


def recognised(content: PriceFile) -> str:
    """The name of the one reader whose format this is; none or several is an error that names them."""
    names = [name for name, reader in PRICE_READERS.items() if reader.recognise(content)]
    if len(names) == 1:
        return names[0]
    shown = ", ".join(content.header[:6]) if content.header else "a JSON document"
    if names:
        raise InputError(
            field=content.file,
            value=shown,
            problem=f"looks like more than one format: {', '.join(names)}",
            fix="Give the file as one program wrote it.",
        )
    export = export_named(content.header or (content.document if isinstance(content.document, dict) else ()))
    if export is not None:
        raise InputError(
            field=content.file, value=shown, problem=f"is {export.what}, which is not read for prices", fix=export.fix
        )
    known = "; ".join(reader.what for reader in PRICE_READERS.values())
    raise InputError(
        field=content.file,
        value=shown,
        problem="is not in a known price format",
        fix=f"Known: {known}. Or write the prices into a CSV of ours: docs/reference/price-book.md.",
    )
