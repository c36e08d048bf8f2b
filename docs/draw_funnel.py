"""Draws funnel.svg of coordinates.md: Neal's funnel as it is and in learned coordinates. `python docs/draw_funnel.py`.

The draws are those of the default with seed 0.
"""

from pathlib import Path

import jax
import numpy as np

import gadabout as gad
from gadabout.ensemble.noncentring import unfolded, unpacked
from gadabout.targets import sets

PICTURE = Path(__file__).with_name("funnel.svg")
SEED, POINTS = 0, 1_600
WIDTH, HEIGHT, MARGIN, GAP = 300, 260, 44, 56
HEIGHTS = (-10.0, 10.0)
"""the range of v"""


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    tree = gad.sample(sets.load("funnel"), seed=SEED, progress=False)
    v, x = (tree["posterior"][name].values for name in ("v", "x"))
    draws = np.concatenate([v[..., None], x], -1).reshape(-1, 10)
    draws = draws[:: len(draws) // POINTS]
    layers = unpacked(tree["learned"]["layers"].values)
    panels = (("before: x[0]", draws, 40.0), ("after: y[0]", unfolded(layers, draws), 4.0))
    parts = [panel(i, name, rows[:, 1], rows[:, 0], most) for i, (name, rows, most) in enumerate(panels)]
    width, height = 2 * (WIDTH + MARGIN) + GAP, HEIGHT + 2 * MARGIN
    box = f'viewBox="0 0 {width} {height}" width="{width}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="12">'
    PICTURE.write_text("\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n")


def panel(i: int, name: str, across: np.ndarray, up: np.ndarray, most: float) -> str:
    """Points in a frame: `across` from −most to most, `up` in the range of v. What lies outside is left out."""
    left, top = MARGIN + i * (WIDTH + GAP), MARGIN / 2
    inside = (np.abs(across) < most) & (up > HEIGHTS[0]) & (up < HEIGHTS[1])
    columns = left + WIDTH * (across[inside] + most) / (2 * most)
    rows = top + HEIGHT * (HEIGHTS[1] - up[inside]) / (HEIGHTS[1] - HEIGHTS[0])
    points = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(columns, rows, strict=True))
    lines = [
        f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
        f'<path d="{points}" stroke="#1f5fa8" stroke-opacity="0.45" stroke-width="2.2" stroke-linecap="round"/>',
        text(left + WIDTH / 2, top + HEIGHT + 34, name),
        text(left - 32, top + HEIGHT / 2, "v"),
    ]
    for share in (0.0, 0.5, 1.0):
        lines.append(text(left + share * WIDTH, top + HEIGHT + 16, f"{(2 * share - 1) * most:.0f}"))
        value = HEIGHTS[0] + share * (HEIGHTS[1] - HEIGHTS[0])
        lines.append(text(left - 14, top + 4 + HEIGHT * (1 - share), f"{value:.0f}"))
    return "\n".join(lines)


def text(x: float, y: float, words: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle">{words.replace("-", "−")}</text>'


if __name__ == "__main__":
    main()
