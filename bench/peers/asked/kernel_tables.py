"""Runs in the environment of AIConfigurator or AISimulate: a replica a line of JSON in, its rows or a reason out.

The first argument is the path of ullage's kernel_tables.py, which asks; the second is the package's name.
"""

import json
import sys
from pathlib import Path

script = Path(sys.argv[1])
sys.path.append(str(script.parent))
kernel_tables = __import__(script.stem)

for line in sys.stdin:
    try:
        rows = kernel_tables.kernel_rows(sys.argv[2], kernel_tables.KernelQuery(**json.loads(line)))
        print(json.dumps({"rows": rows}), flush=True)
    except kernel_tables.NoKernelsError as error:
        print(json.dumps({"reason": str(error)}), flush=True)
    except KeyError as error:
        print(json.dumps({"reason": f"does not know {error}"}), flush=True)
