"""Draws energy against time of the runs of dozen.py, by those of the first.

    python3 frontier.py "one at a time=1,1" "pairs=0.502,0.788" ... >frontier.svg

Each word is a name with time and energy; without a name a point has no label.
"""

import sys

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 400, 64, 52, 20, 30
LOW, HIGH = 0.4, 1.2


def main():
    points = []
    for word in sys.argv[1:]:
        name, figures = word.split("=")
        points.append((name, *map(float, figures.split(","))))
    x = lambda value: LEFT + (value - LOW) / (HIGH - LOW) * (WIDTH - LEFT - RIGHT)
    y = lambda value: HEIGHT - BOTTOM - (value - LOW) / (HIGH - LOW) * (HEIGHT - BOTTOM - TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" font-family="sans-serif" font-size="13">']
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    for tick in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2):
        out.append(f'<path d="M{x(tick):.1f} {y(LOW):.1f}V{TOP}M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#ddd" fill="none"/>')
        out.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:.1f}</text>')
        out.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.1f}</text>')
    best, frontier = float("inf"), []
    for name, time, energy in sorted(points, key=lambda point: point[1]):
        if energy < best:
            best = energy
            frontier.append(f"{x(time):.1f} {y(energy):.1f}")
    out.append(f'<path d="M{"L".join(frontier)}" stroke="#0072b2" stroke-width="2" fill="none"/>')
    for name, time, energy in points:
        out.append(f'<circle cx="{x(time):.1f}" cy="{y(energy):.1f}" r="5" fill="#0072b2"/>')
        if not name:
            continue
        anchor, shift = ("end", -10) if time > 0.8 else ("start", 10)
        out.append(f'<text x="{x(time) + shift:.1f}" y="{y(energy) - 8:.1f}" text-anchor="{anchor}">{name}: {energy:.2f} / {time:.2f}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">time of all twelve jobs, by one at a time</text>')
    out.append(f'<text transform="translate(16 {(HEIGHT - BOTTOM + TOP) / 2}) rotate(-90)" text-anchor="middle">energy, by one at a time</text>')
    print("\n".join(out + ["</svg>"]))


main()
