"""Pictures that a person can play with; the same notebook shows them plainly when it is run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from horizont.pipeline.progress import VARIABLE, shown_by

#: A value with what it may be: from least to greatest, or one of several words.
Choice = tuple[float, float, float] | tuple[str, ...]


def explore(draw: Callable[..., Any], button: str = "", **choices: Choice) -> Any:
    """Show a picture; with sliders where a person is at the keyboard.

    Parameters
    ----------
    draw
        Draws the picture from the values, which it takes by name.
    button
        Wait until a button of this name is pressed: for what takes longer than a moment.
    choices
        Of each value: where it stands, the least and the greatest; or words, the first chosen.

    Returns
    -------
    Any
        The picture itself in a notebook that is run headlessly, so that no page holds controls
        that nobody answers.
    """
    if not someone_there():
        return draw(**{name: choice[0] for name, choice in choices.items()})
    controls = {name: _control(name, choice) for name, choice in choices.items()}
    return _panel(draw, button, controls)


def _panel(draw: Callable[..., Any], button: str, controls: dict[str, Any]) -> Any:
    """Put the controls, a line for progress and the picture below each other."""
    from ipywidgets import HTML, VBox, interactive  # type: ignore[import-untyped]

    line = HTML()

    def drawn(**values: Any) -> Any:
        with shown_by(lambda _, page: line.set_trait("value", page)):
            return draw(**values)

    waiting = {"manual": True, "manual_name": button} if button else {}
    settings = {"auto_display": True, **waiting}
    *above, picture = interactive(drawn, settings, **controls).children
    return VBox([*above, line, picture])


def someone_there() -> bool:
    """Tell whether this is a notebook that was opened by hand: our runner names a file."""
    from IPython import get_ipython

    shell = get_ipython()
    return getattr(shell, "kernel", None) is not None and VARIABLE not in os.environ


def _control(name: str, choice: Choice) -> Any:
    """Make the control that fits: a list of words, whole numbers, or any numbers."""
    from ipywidgets import Dropdown, FloatSlider, IntSlider

    value, least, greatest = (*choice, None, None)[:3]
    style = {"description_width": "8em"}
    about: dict[str, Any] = {"description": name.replace("_", " "), "style": style}
    if isinstance(value, str):
        return Dropdown(options=choice, **about)
    about |= {"value": value, "min": least, "max": greatest, "continuous_update": False}
    if isinstance(value, int):
        return IntSlider(**about)
    return FloatSlider(**about, step=(greatest - least) / 100, readout_format=".3g")
