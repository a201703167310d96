"""Hold ``read_rope`` of sparse configurations against the classes of transformers.

``PYTHONPATH=tests python tests/oracles/config_families.py`` writes
``book/data/config-families.json``: for each family and spelling of a file with sizes
and at most one base, whether the reading equals what the class computes, warns, or is
refused. It needs ``rope-families.json.gz`` and no transformers.
"""

import json
from collections import Counter

from support import ROOT
from support.sparse_configs import table

OUT = ROOT / "book/data/config-families.json"


def main():
    """Write the table, and print a summary and the silent differences."""
    found = table()
    OUT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    for row in found["families"]:
        for spelling, of in row["files"].items():
            if of["verdict"] == "silent":
                print(f"{row['family']}, {spelling}: {of['differs']}")
    print(dict(Counter(row["verdict"] for row in found["families"])))


if __name__ == "__main__":
    main()
