"""Profiles: predefined settings, each as its changes to the quick profile."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from io import StringIO
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from yaml import YAMLError, safe_load

from horizont.config.base import parse_config
from horizont.config.study import Study
from horizont.config.system import parse_system
from horizont.config.topology import DEFAULT_LAUNCHER
from horizont.errors import Problem, UserError
from horizont.launchers import LAUNCHERS
from horizont.launchers.base import OPTIONAL_SETTINGS, get_launcher
from horizont.launchers.command import TEMPLATES
from horizont.records.files import write_atomically
from horizont.wording import suggestion
from horizont.workflow.paths import Paths

BASE_PROFILE = "quick"


def profile_names(paths: Paths) -> list[str]:
    """List the profiles of the study; refuse a study without any."""
    folder = paths.root / "profiles"
    if not (names := sorted(path.stem for path in folder.glob("*.yaml"))):
        raise UserError(str(folder), Problem("missing"), "the profiles; `git checkout profiles`")
    return names


def profile_descriptions(paths: Paths) -> dict[str, str]:
    """Return the first sentence of the comment at the beginning of each profile, by its name."""
    descriptions = {}
    for name in profile_names(paths):
        comment, _ = _split_comment(_profile_path(paths, name).read_text(encoding="utf-8"))
        text = " ".join(line.removeprefix("#").strip() for line in comment)
        descriptions[name] = re.split(r"(?<=\.)\s", text)[0].rstrip(".")
    return descriptions


def apply_profile(
    paths: Paths, name: str, launcher: str = "", *, before_writing: Callable[[], None] | None = None
) -> Study:
    """Write the settings of a profile into ``params.yaml``.

    A profile names its experiments; each changes the one of that name in the quick profile, if
    there is one. Experiments that it does not name are not in it, nor are the mutations and replays
    of the quick profile on workloads that it does not verify. Without a `profile` of its own, the
    name in reports is that of the file. If its settings are wrong, ``params.yaml`` is not changed,
    and `before_writing` is not called.

    With a `launcher` the distributed experiments are those of its machines: without the settings
    that it does not support, and unchanged where they are about such a setting.
    """
    text = _settings_of(paths, name, launcher)
    study = parse_config(Study, safe_load(text), f"profiles/{name}.yaml")
    if before_writing is not None:
        before_writing()
    write_atomically(paths.params, lambda file: file.write_text(text, encoding="utf-8"))
    return study


def save_edited_settings(paths: Paths) -> Path | None:
    """Copy ``params.yaml`` to a file of another name, if its settings are not those of a profile.

    The copy is ``params.edited.yaml``, or has the next free number. Returns None without a copy.
    """
    try:
        text = paths.params.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    if _is_of_a_profile(text, paths):
        return None
    for number in count(1):
        suffix = f"-{number}" if number > 1 else ""
        copy = paths.params.with_name(f"params.edited{suffix}.yaml")
        if not copy.exists():
            write_atomically(copy, lambda file: file.write_text(text, encoding="utf-8"))
            break
        if copy.read_text(encoding="utf-8") == text:
            break
    return copy


def _is_of_a_profile(text: str, paths: Paths) -> bool:
    try:
        values = safe_load(text)
    except YAMLError:
        return False
    name = values.get("profile") if isinstance(values, dict) else None
    if name not in profile_names(paths):
        return False
    originals = [_settings_of(paths, name, launcher) for launcher in ("", *LAUNCHERS)]
    return any(
        values == safe_load(original) and _comments(text) <= _comments(original)
        for original in originals
    )


def _comments(text: str) -> set[str]:
    """Return the lines that are comments."""
    return {line.strip() for line in text.splitlines() if line.strip().startswith("#")}


def _settings_of(paths: Paths, name: str, launcher: str) -> str:
    """Return the content of ``params.yaml`` for a profile and a launcher."""
    if name not in profile_names(paths):
        raise UserError("profile", name, profile_names(paths))
    if launcher and launcher not in LAUNCHERS:
        commands = f"{' and '.join(TEMPLATES)} are values of topology.options.command"
        names = f"one of {', '.join(LAUNCHERS)}{suggestion(launcher, LAUNCHERS)}"
        allowed = f"{names}; {commands}, for the launcher command"
        raise UserError("--launcher", launcher, allowed)
    yaml = YAML()
    yaml.width = 100
    values = yaml.load(_profile_path(paths, BASE_PROFILE).read_text(encoding="utf-8"))
    if name != BASE_PROFILE:
        changes = yaml.load(_profile_path(paths, name).read_text(encoding="utf-8"))
        changes.setdefault("profile", name)
        chosen = changes.get("experiments", values["experiments"])
        for other in [each for each in values["experiments"] if each not in chosen]:
            del values["experiments"][other]
        deep_merge(values, changes)
        for experiment in chosen:
            values["experiments"].move_to_end(experiment)
        _restrict_to_verified(values["equivalence"], changes.get("equivalence", {}))
    if launcher:
        for experiment in values["experiments"].values():
            _use_launcher(experiment, launcher)
    text = StringIO()
    yaml.dump(values, text)
    comment, _ = _split_comment(_profile_path(paths, name).read_text(encoding="utf-8"))
    _, settings = _split_comment(text.getvalue())  # after the comment on the quick profile
    return "".join([*comment, *settings])


def _restrict_to_verified(equivalence: Any, changes: Any) -> None:
    """Remove mutations and replays of the quick profile on workloads that are not verified."""
    for field in {"mutations", "replay"} - {*changes}:
        for name in {*equivalence[field]} - {*equivalence["workloads"]}:
            equivalence[field].remove(name)


def _split_comment(text: str) -> tuple[list[str], list[str]]:
    """Split the lines of a file after the comment at its beginning."""
    lines = text.splitlines(keepends=True)
    comment = [*takewhile(lambda line: line.startswith("#"), lines)]
    return comment, lines[len(comment) :]


def _use_launcher(experiment: Any, name: str) -> None:
    """Set the launcher of an experiment, if it has several processes and the launcher is able."""
    launcher, topology = get_launcher(name), experiment.setdefault("topology", {})
    own = get_launcher(topology.get("launcher", DEFAULT_LAUNCHER))
    unsupported = {setting for setting in OPTIONAL_SETTINGS if setting not in launcher.settings}
    faults = {fault["kind"] for fault in experiment.get("faults", [])}
    if (
        "shared_clock" not in own.capabilities  # it asks for other machines already
        or all(parse_system(system).is_local for system in experiment.get("systems", []))
        or unsupported & set(experiment.get("sweep", {}))
        or ("disconnect" in faults and "disconnect" not in launcher.capabilities)
    ):
        return
    for setting in unsupported & set(topology):
        del topology[setting]
    topology["launcher"] = name


def deep_merge(base: Any, changes: Mapping[str, Any]) -> None:
    """Merge nested mappings; a `sweep` or a list replaces the one before it."""
    for key, value in changes.items():
        if key != "sweep" and isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            deep_merge(base[key], value)
        else:
            base[key] = value


def _profile_path(paths: Paths, name: str) -> Path:
    return paths.root / "profiles" / f"{name}.yaml"
