"""Packages that add up steps from measured kernels, asked where they are installed beside ullage."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from ullage.errors import InputError, unknown_name
from ullage.readers.profiles.kernel_tables import BACKENDS, PACKAGES, SYSTEMS, KernelQuery, NoKernelsError, kernel_rows


def package_rows(name: str, asked: KernelQuery, *, field: str) -> tuple[list[dict[str, str]], str]:
    """What an installed package says of this replica, and its version; an InputError says how to get either."""
    found = _installed_version(name, field=field)
    if asked.device not in SYSTEMS:
        raise unknown_name(field=f"{field}: device", name=asked.device, known=SYSTEMS)
    if asked.engine not in BACKENDS:
        raise unknown_name(field=f"{field}: engine", name=asked.engine, known=BACKENDS)
    try:
        return kernel_rows(name, asked), found
    except (ImportError, NoKernelsError) as error:
        model = " or ".join(asked.model_names) or "this model"
        raise InputError(
            field=field,
            value=name,
            problem=f"has no steps of {model} on {asked.device}: {error}",
            fix="Leave it out for the estimate, or give a file of measured steps.",
        ) from None


def _installed_version(name: str, *, field: str) -> str:
    try:
        return version(PACKAGES[name])
    except PackageNotFoundError:
        raise InputError(
            field=field,
            value=name,
            problem=f"the package {PACKAGES[name]} is not installed",
            fix=f"Install it beside ullage (pip install {PACKAGES[name]}), or run kernel_tables.py in an environment "
            f"of its own and give the file: docs/howto/use-a-step-profile.md.",
        ) from None
