"""The bill of materials as CycloneDX 1.6 JSON, from the locks alone (`make sbom`): no network, same locks, same bytes.

A Python package has the sums of all of its published files; what is installed is one of them. Licences of Python
packages are not in the locks and so not in here: `make licences` reads them where the packages are installed.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from pathlib import Path
from typing import Any

from scripts.supply.locked import ROOT, LockedPackage, page_packages, python_packages

# The name space of serial numbers: a document with the same content has the same number.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "pkg:pypi/ullage")


def component(package: LockedPackage) -> dict[str, Any]:
    properties = [{"name": "ullage:lock", "value": each} for each in package.where]
    if package.marker:
        properties.append({"name": "ullage:marker", "value": package.marker})
    group, _, name = package.name.rpartition("/")
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.purl,
        "name": name,
        "version": package.version,
        "scope": package.scope,
        "purl": package.purl,
        "hashes": [{"alg": algorithm, "content": content} for algorithm, content in package.hashes],
        "properties": properties,
    }
    if group:
        made["group"] = group
    if package.licence:
        made["licenses"] = [{"expression": package.licence}]
    return made


def direct_names(root: Path) -> set[str]:
    """Ecosystem and name of what the project itself asks for; the locks do not say who asks for the rest."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [re.split(r"[<>=!~\[ ]", each)[0] for each in project["dependencies"]]
    page = json.loads((root / "page/package.json").read_text(encoding="utf-8"))
    return {f"pkg:pypi/{re.sub(r'[-_.]+', '-', each).lower()}" for each in asked} | {
        f"pkg:npm/{each.replace('@', '%40')}" for each in page["dependencies"]
    }


def project_version(root: Path) -> str:
    found = re.search(r'^__version__ = "([^"]+)"', (root / "src/ullage/__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError("src/ullage/__init__.py does not say __version__")
    return found[1]


def bill_of_materials(root: Path = ROOT) -> dict[str, Any]:
    packages = [*page_packages(root), *python_packages(root)]
    version = project_version(root)
    own = f"pkg:pypi/ullage@{version}"
    direct = direct_names(root)
    body: dict[str, Any] = {
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "ullage",
                "version": version,
                "purl": own,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": [component(each) for each in packages],
        "dependencies": [
            {"ref": own, "dependsOn": [each.purl for each in packages if each.purl.rpartition("@")[0] in direct]}
        ],
        # Who asks for whom below the first row is not in the locks.
        "compositions": [{"aggregate": "incomplete", "dependencies": [own]}],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(body, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1, **body}


def main() -> None:
    bill = bill_of_materials()
    out = ROOT / "dist" / f"ullage-{bill['metadata']['component']['version']}.cdx.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    print(f"{out.relative_to(ROOT)}: {len(bill['components'])} components, {bill['serialNumber']}")


if __name__ == "__main__":
    main()
