"""Plots of what measure.py, time_shares.py and peers.py found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

INK = "#333333"
COLORS = ("#1f6f8b", "#d1663a", "#6b8e23", "#8a5a9e")
GROUP_COLORS = ("#1f6f8b", "#7fb3c4", "#b9d6de", "#d1663a", "#e9a985", "#6b8e23", "#8a5a9e", "#c9c9c9")
LEAST_NAMED = 0.03  # smaller shares have no room for their number


def speed(rows: list[dict[str, Any]], title: str, path: Path) -> None:
    """Prefill and decode speed against the prompt's length, one line per number of threads."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for panel, key, name in zip(panels, ("prefill_tok_s", "decode_tok_s"), ("prefill", "decode"), strict=True):
        for color, threads in zip(COLORS, sorted({row["threads"] for row in rows}), strict=False):
            line = sorted((row["prompt"], row[key]) for row in rows if row["threads"] == threads)
            prompts, speeds = zip(*line, strict=True)
            label = f"{threads} thread{'s' if threads > 1 else ''}"
            panel.plot(prompts, speeds, marker="o", color=color, label=label)
        panel.set_xscale("log", base=2)
        lengths = sorted({row["prompt"] for row in rows})
        panel.set_xticks(lengths, [str(length) for length in lengths])
        panel.minorticks_off()
        panel.set_xlabel("prompt tokens")
        panel.set_ylabel("tokens per second")
        panel.set_title(name)
        panel.set_ylim(bottom=0)
        _plain(panel)
    panels[0].legend(frameon=False)
    figure.suptitle(f"{title}, {rows[0]['kernel']}", color=INK)
    _save(figure, path)


def shares(bars: dict[str, dict[str, float]], groups: tuple[str, ...], path: Path) -> None:
    """One bar per measurement, cut into the shares of its groups."""
    figure, panel = plt.subplots(figsize=(9, 0.5 * len(bars) + 1.5), layout="constrained")
    starts = dict.fromkeys(bars, 0.0)
    for group, color in zip(groups, GROUP_COLORS, strict=True):
        widths = [found.get(group, 0.0) for found in bars.values()]
        panel.barh(list(bars), widths, left=list(starts.values()), color=color, label=group, height=0.66)
        for place, (name, width) in enumerate(zip(bars, widths, strict=True)):
            if width >= LEAST_NAMED:
                ink = "white" if color in COLORS else INK
                panel.text(starts[name] + width / 2, place, f"{width:.0%}", ha="center", va="center", color=ink, size=8)
            starts[name] += width
    panel.invert_yaxis()
    panel.set_xlim(0, 1)
    panel.xaxis.set_visible(False)
    panel.spines[["top", "right", "bottom", "left"]].set_visible(False)
    panel.tick_params(left=False)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("where the time goes, and the executed instructions of the arm64 build", color=INK)
    _save(figure, path)


def ratios(rows: list[dict[str, Any]], path: Path) -> None:
    """Our speed over the peer's best, one bar per measurement; 1 is equal."""
    figure, panel = plt.subplots(figsize=(9, 0.45 * len(rows) + 0.9), layout="constrained")
    names = [f"{row['model']}: {row['name']}" for row in rows]
    panel.barh(names, [row["ratio"] for row in rows], color=COLORS[0], height=0.6)
    panel.axvline(1, color=INK, linewidth=1)
    for place, row in enumerate(rows):
        panel.text(row["ratio"], place, f" {row['ratio']:.2f}", va="center", color=INK)
    panel.invert_yaxis()
    panel.set_xlabel("times as fast as llama.cpp at its better setting")
    _plain(panel)
    _save(figure, path)


def _plain(panel: Any) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(visible=True, color="#e5e5e5")
    panel.set_axisbelow(True)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=120)
    plt.close(figure)
