"""Plots of what measure.py and peers.py found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

INK = "#333333"
COLORS = ("#1f6f8b", "#d1663a", "#6b8e23", "#8a5a9e")


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


def ratios(rows: list[dict[str, Any]], title: str, path: Path) -> None:
    """Our speed over the peer's best, one bar per measurement; 1 is equal."""
    figure, panel = plt.subplots(figsize=(7, 0.5 * len(rows) + 1.4), layout="constrained")
    names = [row["name"] for row in rows]
    panel.barh(names, [row["ratio"] for row in rows], color=COLORS[0], height=0.6)
    panel.axvline(1, color=INK, linewidth=1)
    for place, row in enumerate(rows):
        panel.text(row["ratio"], place, f" {row['ratio']:.2f}", va="center", color=INK)
    panel.invert_yaxis()
    panel.set_xlabel("times as fast as llama.cpp at its best setting")
    panel.set_title(title)
    _plain(panel)
    _save(figure, path)


def _plain(panel: Any) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(visible=True, color="#e5e5e5")
    panel.set_axisbelow(True)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=120)
    plt.close(figure)
