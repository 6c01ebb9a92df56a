"""The picture of a log: prefill time against prompt length, one mark per prompt, colored by prefill path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

if TYPE_CHECKING:
    from handler.report import Prefill

INK = "#333333"
ALARM = "#d0021b"  # no path has a color near it
PATHS = {  # the most reuse first; shape and color, so that it reads without color too
    "extend": ("#2f9e6e", "o"),
    "anchor": ("#1f6f8b", "o"),
    "turn_anchor": ("#6aa9c9", "D"),
    "base": ("#8a5a9e", "s"),
    "spare": ("#b9a233", "D"),
    "snapshot_tmp": ("#e0a458", "^"),
    "snapshot_s3": ("#c97b2d", "v"),
    "snapshot_baked": ("#8c5523", "<"),
    "full": ("#555555", "o"),
}
LEAST_COMPUTED = 64  # fewer tokens say nothing of the time per token: a prefill has a fixed part
SLOW = 3.0  # times the median


def plot(prefills: Sequence[Prefill], path: Path) -> None:
    """Write the picture.  Prompts that ran row by row, or far slower per token than most, are marked in red."""
    figure, panel = plt.subplots(figsize=(9, 5.2), layout="constrained")
    for name in [*PATHS, *sorted({p.path for p in prefills} - set(PATHS))]:
        color, marker = PATHS.get(name, ("#999999", "o"))
        group = [p for p in prefills if p.path == name and not p.per_token]
        if group:
            panel.scatter(*_places(group), s=30, color=color, marker=marker, alpha=0.75, linewidths=0, label=name)
    usual_ms = _usual_ms(prefills)
    if usual_ms:
        ends = _shortest_and_longest(prefills)
        label = f"all computed, at {usual_ms:.3g} ms a token (median)"
        panel.plot(ends, [usual_ms * n for n in ends], color="#bbbbbb", ls="--", lw=1, zorder=0, label=label)
    enough = [p for p in prefills if p.computed >= LEAST_COMPUTED and not p.per_token]
    slow = [p for p in enough if p.ms > SLOW * usual_ms * p.computed]
    if slow:
        label = f"{len(slow)} over {SLOW:.0f} x that time a token"
        panel.scatter(*_places(slow), s=170, facecolors="none", edgecolors=ALARM, lw=1.4, label=label)
    headline, color = f"{len(prefills)} prompts, none of them multiplied row by row", INK
    regressions = [p for p in prefills if p.per_token]
    if regressions:
        headline, color = f"{len(regressions)} of {len(prefills)} prompts multiplied row by row (per_token)", ALARM
        label = f"{len(regressions)} per_token: REGRESSION"
        panel.scatter(*_places(regressions), s=100, color=ALARM, marker="X", edgecolors="white", label=label)
    panel.set_title(headline, loc="left", color=color, fontweight="bold" if regressions else "normal")
    _dress(panel)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _places(group: Sequence[Prefill]) -> tuple[list[int], list[float]]:
    return [p.prompt_tokens for p in group], [max(p.ms, 0.1) for p in group]  # 0 has no place on a log axis


def _shortest_and_longest(prefills: Sequence[Prefill]) -> tuple[int, int]:
    lengths = [p.prompt_tokens for p in prefills]
    return max(1, min(lengths)), max(lengths)


def _usual_ms(prefills: Sequence[Prefill]) -> float:
    """The median time of a computed token where enough were computed and the matrix path ran; 0 if nowhere."""
    costs = [p.ms / p.computed for p in prefills if p.computed >= LEAST_COMPUTED and not p.per_token]
    return median(costs) if costs else 0.0


def _dress(panel: Any) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    plain = FuncFormatter(lambda value, _place: f"{value:,.10g}")
    panel.xaxis.set_major_formatter(plain)
    panel.yaxis.set_major_formatter(plain)
    panel.xaxis.set_minor_formatter(FuncFormatter(_some))
    panel.set_xlabel("prompt tokens")
    panel.set_ylabel("prefill, ms")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(visible=True, color="#e5e5e5")
    panel.set_axisbelow(True)


def _some(value: float, _place: int | None = None) -> str:
    """Names for the marks at 2 and 5 between two powers of ten."""
    return f"{value:,.10g}" if f"{value:e}"[0] in "25" else ""
