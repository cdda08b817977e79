"""Amounts as Kubernetes and its neighbours write them: `64Mi`, `1500m`, `90s`."""

from __future__ import annotations

import math

_MIB = 2**20


def mebibytes(amount_bytes: float) -> str:
    """Bytes as a quantity of whole mebibytes, rounded up.

    >>> mebibytes(2**30), mebibytes(2**20 + 1)
    ('1024Mi', '2Mi')
    """
    return f"{math.ceil(amount_bytes / _MIB)}Mi"


def milli(thousandths: int) -> str:
    """A quantity of whole thousandths.

    >>> milli(18200), milli(2000), milli(1)
    ('18200m', '2', '1m')
    """
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def seconds(amount_s: float) -> str:
    """A time as Go and Envoy write it, in whole seconds rounded up, at least one.

    >>> seconds(59.2), seconds(0.1)
    ('60s', '1s')
    """
    return f"{max(1, math.ceil(amount_s - 1e-9))}s"


def number(amount: float) -> str:
    """A number as text that reads back as itself to seven digits, without an exponent.

    >>> number(18.2), number(5.0), number(0.00002)
    ('18.2', '5', '0.00002')
    """
    return f"{float(f'{amount:.7g}'):.12f}".rstrip("0").rstrip(".") or "0"
