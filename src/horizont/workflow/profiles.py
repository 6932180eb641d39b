"""Ready settings: the quick profile, and what each other profile changes in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from horizont.config.base import parse_config
from horizont.config.study import Study, read_study
from horizont.errors import UserError
from horizont.workflow.paths import Paths

BASE_PROFILE = "quick"


def profile_names(paths: Paths) -> list[str]:
    """List the profiles of the study."""
    return sorted(path.stem for path in (paths.root / "profiles").glob("*.yaml"))


def apply_profile(paths: Paths, name: str) -> Study:
    """Write a profile's settings into `params.yaml`.

    Raises
    ------
    UserError
        If there is no such profile, or its settings are wrong; `params.yaml` stays as it was.
    """
    if name not in profile_names(paths):
        raise UserError("profile", name, profile_names(paths))
    yaml = YAML()
    yaml.width = 100
    values = yaml.load(_profile_path(paths, BASE_PROFILE).read_text(encoding="utf-8"))
    if name != BASE_PROFILE:
        deep_merge(values, yaml.load(_profile_path(paths, name).read_text(encoding="utf-8")))
    parse_config(Study, _to_builtin(values), f"profiles/{name}.yaml")
    with paths.params.open("w", encoding="utf-8") as file:
        yaml.dump(values, file)
    return read_study(paths.params)


def deep_merge(base: Any, changes: Mapping[str, Any]) -> None:
    """Put changes into nested settings; a mapping changes only the keys that it names."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            deep_merge(base[key], value)
        else:
            base[key] = value


def _profile_path(paths: Paths, name: str) -> Path:
    return paths.root / "profiles" / f"{name}.yaml"


def _to_builtin(values: Any) -> Any:
    """Turn the reader's own kinds into plain ones."""
    if isinstance(values, Mapping):
        return {key: _to_builtin(value) for key, value in values.items()}
    return [_to_builtin(value) for value in values] if isinstance(values, list) else values
