"""Write docs/trace.schema.json, the JSON schema of trace files, from the models that check them."""

from __future__ import annotations

import json
from pathlib import Path

from icgd.transformer.trace.format import FORMAT, Trace

PATH = Path(__file__).parent.parent / "docs" / "trace.schema.json"


def schema() -> str:
    """The schema as text."""
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Trace.model_json_schema(),
        "title": FORMAT,
    }
    return json.dumps(made, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    PATH.write_text(schema(), encoding="utf-8")
    print(PATH.name)
