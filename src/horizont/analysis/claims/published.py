"""What was published: the claims, the table of times, and where they come from."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pandas as pd
import yaml

from horizont.spec import Frozen, validate

_FOLDER = files("horizont.analysis").joinpath("published")

#: The columns of the published table that the parts of a claim are about, added up.
COLUMNS: dict[str, tuple[str, ...]] = {
    "total_s": ("total_s",),
    "load_s": ("load_s",),
    "forward_s": ("forward_s",),
    "backward_s": ("backward_s",),
    "compute_s": ("forward_s", "backward_s"),
    "network_s": ("network_s",),
}

#: What one process does of it: everything but the network.
ALONE = ("load_s", "forward_s", "backward_s")


class Claim(Frozen):
    """A sentence that somebody published and that measurements can settle.

    Attributes
    ----------
    statistic
        What decides it, in words.
    """

    id: str
    source: str
    conditions: str
    claim: str
    published_value: str
    statistic: str


class Source(Frozen):
    """A publication and its set-up."""

    author: str
    title: str
    kind: str
    year: int
    setup: str


@cache
def read_claims() -> tuple[Claim, ...]:
    """Read the claims, in the order of their publications."""
    with _FOLDER.joinpath("claims.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
    table = table.rename(columns={"statistic_that_decides": "statistic"})
    rows = table.to_dict(orient="records")
    return tuple(validate(Claim, row, f"claims.csv.{row['id']}") for row in rows)


@cache
def read_sources() -> dict[str, Source]:
    """Read the publications by the name that claims give them."""
    values = yaml.safe_load(_FOLDER.joinpath("sources.yaml").read_text(encoding="utf-8"))
    return {name: validate(Source, value, f"sources.{name}") for name, value in values.items()}


def published_times() -> pd.DataFrame:
    """Read the published times of the 2021 study.

    Returns
    -------
    pandas.DataFrame
        A row a workload and distributed system: ``workload``, ``system`` as they are called here,
        ``table``, and in seconds for ten epochs ``total_s, load_s, forward_s, backward_s,
        network_s``.
    """
    with _FOLDER.joinpath("ntua_2021_times.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, dtype={"table": str})
    workload = table.pop("model") + "-" + table.pop("dataset")
    system = table.pop("framework") + "/" + table.pop("sync") + "/" + table.pop("architecture")
    table.insert(0, "workload", workload)
    table.insert(1, "system", system)
    return table


def published_seconds(workload: str, system: str, quantity: str) -> float:
    """Look a published time up; NaN if there is none.

    A single process has no row of its own: its times are those of its framework's synchronous
    row without the network, as the study itself has them.
    """
    table = published_times()
    own = table[table["workload"] == workload]
    wanted = COLUMNS.get(quantity, ())
    if system.endswith("/local"):
        rows = own[own["system"].str.startswith(f"{system.partition('/')[0]}/sync/")]
        wanted = ALONE if quantity == "total_s" else wanted
        wanted = () if quantity == "network_s" else wanted
    else:
        rows = own[own["system"] == system]
    if rows.empty or not wanted:
        return float("nan")
    return float(rows.iloc[0][list(wanted)].sum())
