"""What an installed framework offers, queried in a process of its own.

``python -m horizont.frameworks.features FRAMEWORK`` prints one JSON object: ``version``, and by
feature whether it is ``available`` and the ``query`` that decided it.
"""

from __future__ import annotations

import json
import sys
from operator import attrgetter
from typing import Any

from horizont.config.system import installed_version
from horizont.errors import UserError
from horizont.frameworks import load_adapter

#: The features that every adapter reports: any network, several machines, the ways to split the
#: training, the ways to synchronise, and the processors.
FEATURES = (
    "generic", "machines", "data_parallel", "model_parallel", "sync", "async", "cpus", "gpus",
)  # fmt: skip


def framework_features(framework: str) -> dict[str, Any]:
    """Load a framework into this process and return its features."""
    adapter = load_adapter(framework)
    adapter.configure(1)
    features = adapter.features()
    assert set(features) == set(FEATURES), features
    version = installed_version(framework)
    return {"framework": framework, "version": version, "features": features}


def feature(available: object, query: str) -> dict[str, Any]:
    """Return a feature with the query that decided it."""
    return {"available": bool(available), "query": query}


def names_exist(root: Any, *paths: str) -> dict[str, Any]:
    """Return a feature that is available if all names exist: ``root.name.name``."""
    return feature(all(_exists(root, path) for path in paths), ", ".join(paths))


def _exists(root: Any, path: str) -> bool:
    try:
        attrgetter(path.split(".", 1)[1])(root)
    except AttributeError:
        return False
    return True


if __name__ == "__main__":
    try:
        print(json.dumps(framework_features(sys.argv[1])))
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
