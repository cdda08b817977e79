"""How a server is reached, and what it calls things: two small files that users already have or write once.

The first is Prometheus's own client configuration, as `promtool --http.config.file` takes it, so that secrets stay in
files. The second maps recording rules and labels of one's own onto our quantities:

    metrics:
      arrivals: gateway:requests:increase1m      # a counter's name, in place of ours
    label: product                               # the label that tells classes apart
    classes: {chat: web, coding: editor}         # our classes, and the label's values for them
    selector: namespace="prod"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.bounded import bounded_text
from ullage.documents import yaml_values
from ullage.errors import InputError, check_name
from ullage.readers.prometheus.metrics import METRICS, MetricName
from ullage.reconcile.observation import ObservedQuantity

_FIX = "See docs/howto/reconcile-a-plan.md."


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _BasicAuth(_Strict):
    username: str
    password: str = ""
    password_file: str = ""


class _Authorization(_Strict):
    type: str = "Bearer"
    credentials: str = ""
    credentials_file: str = ""


class _Tls(_Strict):
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    insecure_skip_verify: bool = False


class _HeaderValues(_Strict):
    values: list[str] = Field(default_factory=list)
    secrets: list[str] = Field(default_factory=list)
    files: list[str] = Field(default_factory=list)


class _HttpConfig(_Strict):
    basic_auth: _BasicAuth | None = None
    authorization: _Authorization | None = None
    bearer_token: str = ""
    bearer_token_file: str = ""
    tls_config: _Tls | None = None
    http_headers: dict[str, _HeaderValues] = Field(default_factory=dict)
    follow_redirects: bool = True
    timeout_s: float = Field(default=60.0, gt=0.0)
    retries: int = Field(default=4, ge=0, le=20)


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    """Headers, certificates and patience of a client."""

    headers: Mapping[str, str] = field(default_factory=dict)
    basic: tuple[str, str] | None = None
    ca_file: str = ""
    certificate: tuple[str, str] | None = None
    verifies: bool = True
    server_name: str = ""
    follows: bool = True
    timeout_s: float = 60.0
    retries: int = 4


def read_http_settings(file: Path | None) -> HttpSettings:
    """Settings of a client configuration; the defaults without one."""
    if file is None:
        return HttpSettings()
    found: _HttpConfig = _validated(_HttpConfig, file)
    folder = file.parent
    headers = {
        name: ", ".join([*each.values, *each.secrets, *(_secret(folder, one) for one in each.files)])
        for name, each in found.http_headers.items()
    }
    bearer = found.bearer_token or (_secret(folder, found.bearer_token_file) if found.bearer_token_file else "")
    if found.authorization is not None:
        given = found.authorization
        secret = given.credentials or (_secret(folder, given.credentials_file) if given.credentials_file else "")
        headers["Authorization"] = f"{given.type} {secret}"
    elif bearer:
        headers["Authorization"] = f"Bearer {bearer}"
    basic = None
    if found.basic_auth is not None:
        own = found.basic_auth
        basic = (own.username, own.password or (_secret(folder, own.password_file) if own.password_file else ""))
    tls = found.tls_config or _Tls()
    paths = [str(folder / each) if each else "" for each in (tls.ca_file, tls.cert_file, tls.key_file)]
    return HttpSettings(
        headers=headers,
        basic=basic,
        ca_file=paths[0],
        certificate=(paths[1], paths[2]) if paths[1] else None,
        verifies=not tls.insecure_skip_verify,
        server_name=tls.server_name,
        follows=found.follow_redirects,
        timeout_s=found.timeout_s,
        retries=found.retries,
    )


class _NamesFile(_Strict):
    metrics: dict[str, str] = Field(default_factory=dict)
    label: str = ""
    classes: dict[str, str] = Field(default_factory=dict)
    selector: str = ""


@dataclass(frozen=True, kw_only=True)
class MetricNames:
    """The table with one's own names put first; `classes` are label values by class."""

    table: Mapping[ObservedQuantity, tuple[MetricName, ...]] = field(default_factory=lambda: METRICS)
    label: str = ""
    classes: Mapping[str, str] = field(default_factory=dict)
    selector: str = ""

    def class_of(self, value: str) -> str | None:
        """The class that a label's value stands for; without a mapping the value itself."""
        if not self.classes:
            return value or None
        return next((name for name, said in self.classes.items() if said == value), None)


def read_metric_names(file: Path | None) -> MetricNames:
    if file is None:
        return MetricNames()
    found: _NamesFile = _validated(_NamesFile, file)
    table = dict(METRICS)
    known = {each.value: each for each in ObservedQuantity}
    for name, metric in found.metrics.items():
        check_name(name, known, field=f"{file.name}: metrics")
        ours = table[known[name]]
        first = next((each for each in ours if each.kind.value != "expression"), ours[0])
        own = replace(first, name=metric, engine="named", labels="", scale_ratio=1.0, caveat="")
        table[known[name]] = (own, *ours)
    return MetricNames(table=table, label=found.label, classes=found.classes, selector=found.selector)


def _validated(kind: type[Any], file: Path) -> Any:
    try:
        text = bounded_text(file, fix=_FIX)
    except (OSError, UnicodeDecodeError) as error:
        problem = (getattr(error, "strerror", None) or "is not text").lower()
        raise InputError(field="file", value=str(file), problem=problem, fix=_FIX) from None
    values = yaml_values(text, file=file.name, fix=_FIX)
    if values and values[0] is not None and not isinstance(values[0], dict):
        raise InputError(field=str(file), value=text[:40], problem="is not a mapping", fix=_FIX)
    try:
        return kind.model_validate(values[0] if values and values[0] is not None else {})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(each) for each in first["loc"])
        raise InputError(
            field=f"{file.name}: {key}", value=first.get("type"), problem=first["msg"].lower(), fix=_FIX
        ) from None


def _secret(folder: Path, name: str) -> str:
    """The content of a file that holds a secret; it is named in errors, and what it says is not."""
    try:
        return bounded_text(folder / name, field=name, fix="Give the file of a secret.").strip()
    except (OSError, UnicodeDecodeError):
        raise InputError(field=name, value="", problem="cannot be read", fix="Check the path and its rights.") from None
