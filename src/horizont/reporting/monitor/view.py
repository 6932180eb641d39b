"""The page with its controls in JupyterLab: it renews itself while somebody looks at it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from horizont.analysis.live import LiveRun, Snapshot
from horizont.analysis.places import find_runs
from horizont.reporting.monitor.logs import ALL
from horizont.reporting.monitor.page import live_page

#: The choice of run that goes on to the next one when a run is over.
NEWEST = "the newest run"

#: Ranges of time: the last so many seconds; None for the whole run.
RANGES: dict[str, float | None] = {
    "whole run": None,
    "last minute": 60.0,
    "last 5 minutes": 300.0,
}
CHOSEN = "from … to"

#: Looking takes at most this share of a core: it waits the longer, the more a look costs.
_SHARE = 0.03
#: Politeness of the thread that looks, as of `nice`.
_NICE = 10
#: So long after the last look at the page the view ends, in seconds.
_UNSEEN_S = 30.0


class LiveView:
    """The view of a folder of records.

    Its thread ends when the page is closed, or was not seen for half a minute; showing it again
    starts another. It reads files only, so it can be opened before, during and after a run.

    Parameters
    ----------
    records
        The folder of the records of a study.
    refresh_s
        Seconds from look to look, at least.
    """

    def __init__(self, records: Path, refresh_s: float = 2.0) -> None:
        import ipywidgets as widgets  # type: ignore[import-untyped]

        self.records = records
        self.refresh_s = refresh_s
        self._runs: dict[str, Path] = {}
        self._live: LiveRun | None = None
        self._snapshot: Snapshot | None = None
        self._lock, self._wake, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._seen_s = time.monotonic()
        self._page = widgets.HTML(layout=widgets.Layout(width="auto"))
        self._page._view_count = 0  # has the front end count who shows it
        self._run = widgets.Dropdown(options=[NEWEST], layout=widgets.Layout(width="460px"))
        self._range = widgets.ToggleButtons(options=[*RANGES, CHOSEN])
        self._range.style.button_width = "122px"
        self._slider = widgets.FloatRangeSlider(
            min=0.0,
            max=1.0,
            value=(0.0, 1.0),
            step=0.1,
            readout_format=".1f",
            description="seconds",
        )
        self._slider.layout = widgets.Layout(width="460px", display="none")
        self._log = widgets.Dropdown(options=[ALL], layout=widgets.Layout(width="200px"))
        self._pause = widgets.ToggleButton(description="pause", layout=widgets.Layout(width="80px"))
        top = widgets.HBox([self._run, self._log, self._pause])
        ranges = widgets.HBox([self._range, self._slider])
        self._box = widgets.VBox([top, ranges, self._page])
        for control in (self._run, self._range, self._slider, self._log, self._pause):
            control.observe(self._chosen, "value")
        self._page.observe(self._counted, "_view_count")

    def start(self) -> None:
        """Look once, and then again and again."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._over.clear()
        self._seen_s = time.monotonic()
        self._thread = threading.Thread(target=self._watch, name="horizont-live", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the view: its thread, and its page."""
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(10)
        self._box.close()

    @property
    def alive(self) -> bool:
        """Whether its thread still looks."""
        return self._thread is not None and self._thread.is_alive()

    def refresh(self) -> None:
        """Look now."""
        with self._lock:
            started_s = time.thread_time()
            self._offer_runs()
            final = self._runs.get(self._run.value) or next(iter(self._runs.values()), None)
            if final is None:
                self._page.value = live_page(Snapshot("gone"), note=f"waiting for {self.records}")
                return
            self._look(final)
            cost_s = time.thread_time() - started_s
            self._page.value = self._write(cost_s)

    def _look(self, final: Path) -> None:
        """Read the run, unless it is over and has been read."""
        if self._live is None or self._live.final != final:
            self._live, self._snapshot = LiveRun(final), None
        if (
            self._snapshot is None
            or self._snapshot.result is None
            or self._snapshot.state != "over"
        ):
            found = self._live.look()
            # What an interrupted run left on the page stays there.
            if found.state != "gone" or self._snapshot is None:
                self._snapshot = found
        self._offer_logs()

    def _offer_runs(self) -> None:
        found = find_runs(self.records)
        self._runs = {self._label(final): final for final in found}
        options = [NEWEST, *self._runs]
        if list(self._run.options) != options:
            kept = self._run.value if self._run.value in options else NEWEST
            with self._run.hold_trait_notifications():
                self._run.options = options
                self._run.value = kept

    def _label(self, final: Path) -> str:
        name = final.name.rpartition("-")[0] or final.name
        return f"{final.parent.parent.name} · {final.parent.name} · {name} · {final.name[-4:]}"

    def _offer_logs(self) -> None:
        assert self._snapshot is not None
        options = [ALL, *self._snapshot.logs]
        if list(self._log.options) != options:
            kept = self._log.value if self._log.value in options else ALL
            with self._log.hold_trait_notifications():
                self._log.options = options
                self._log.value = kept

    def _span(self) -> tuple[float, float]:
        assert self._snapshot is not None
        length_s = max(self._snapshot.length_s, 1.0)
        if self._range.value == CHOSEN:
            return self._slid(length_s)
        last_s = RANGES[self._range.value]
        return (0.0 if last_s is None else max(0.0, length_s - last_s), length_s)

    def _slid(self, length_s: float) -> tuple[float, float]:
        """Tell the chosen range; one that reached to the end of the run still does."""
        start_s, end_s = self._slider.value
        if end_s >= self._slider.max:
            end_s = length_s
        if self._slider.max != length_s:
            with self._slider.hold_trait_notifications():
                self._slider.max = length_s
                self._slider.value = (min(start_s, length_s), min(end_s, length_s))
        return tuple(self._slider.value)

    def _write(self, cost_s: float) -> str:
        assert self._snapshot is not None
        note = f"{time.strftime('%H:%M:%S')} · this look took {1e3 * cost_s:.0f} ms of a processor"
        return live_page(self._snapshot, self._span(), self._log.value, note)

    def _watch(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while not self._over.is_set() and not self._unseen():
            used_s = time.thread_time()
            if not self._pause.value:
                self.refresh()
            used_s = time.thread_time() - used_s
            self._wake.wait(max(self.refresh_s, used_s / _SHARE))
            self._wake.clear()

    def _unseen(self) -> bool:
        if self._page._view_count:
            self._seen_s = time.monotonic()
        return time.monotonic() - self._seen_s > _UNSEEN_S

    def _chosen(self, change: Any) -> None:
        """Show at once what was chosen."""
        del change
        self._slider.layout.display = None if self._range.value == CHOSEN else "none"
        self._wake.set()

    def _counted(self, change: Any) -> None:
        """Go on looking when somebody shows the page again."""
        if change["new"] and not self._over.is_set():
            self.start()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self._box)  # type: ignore[no-untyped-call]


def watch(records: Path, refresh_s: float = 2.0) -> LiveView:
    """Open the monitoring page on a folder of records."""
    view = LiveView(records, refresh_s)
    view.start()
    return view
