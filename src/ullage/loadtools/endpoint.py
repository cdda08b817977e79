"""The one address that tests are sent to: as it was named, asked for what it serves, and never left for another."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from ullage.errors import InputError

_FIELD = "URL"
_TIMEOUT_S = 10.0
_MOST_BYTES = 1_000_000


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect leads to a host that nobody named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def parse_endpoint(url: str) -> str:
    """The address without a path, as load tools take it; what is no plain HTTP address is an InputError."""
    fix = "Give the address of one replica, such as http://10.0.0.7:8000."
    parts = urlsplit(url)
    try:
        is_plain = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_plain = False
    if not is_plain or parts.username or parts.password or parts.query or parts.fragment:
        raise InputError(field=_FIELD, value=url, problem="is not a plain HTTP address of one host", fix=fix)
    if parts.path.rstrip("/") not in ("", "/v1"):
        raise InputError(field=_FIELD, value=url, problem="has a path, and tools add their own", fix=fix)
    return f"{parts.scheme}://{parts.netloc}"


def served_models(url: str) -> tuple[str, ...]:
    """The names that the endpoint serves, by its own /v1/models; one that does not answer is an InputError."""
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/v1/models", timeout=_TIMEOUT_S) as answer:
            found = json.loads(answer.read(_MOST_BYTES))
        names = tuple(str(each["id"]) for each in found["data"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(
            field=_FIELD,
            value=url,
            problem=f"does not answer /v1/models as an OpenAI-compatible endpoint does ({reason})",
            fix="Start one replica with the plan's flags, and give its address.",
        ) from None
    if not names:
        raise InputError(field=_FIELD, value=url, problem="serves no model", fix="Start the engine with one.")
    return names
