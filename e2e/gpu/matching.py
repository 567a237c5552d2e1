"""What a table of `arles profile` is worth: one job at a time, in pairs, under power limits.

    python matching.py table.csv

Every workload is a job of as many steps as it does alone in 100 s. Energy and makespan, both by those of one job at a time at the card's own limit:
the best perfect matching by energy and by time (all matchings are tried), the mean over all matchings, and the best limit for each job. A pair runs until
one of the two is done; the other goes on alone.
"""

import csv
import sys

SECONDS = 100.0


def number(text):
    return float(text) if text not in ("", "-", "NaN") else None


def read(path):
    alone, limited, pairs, busy, idle = {}, {}, {}, {}, 0.0
    with open(path) as file:
        for row in csv.DictReader(file):
            name, partner, limit = row["workload"], row["partner"], number(row["limit_watts"])
            rate, watts = number(row["steps_per_second"]), number(row["watts"])
            if rate is None:
                idle = watts
            elif limit is not None:
                limited[name, limit] = rate, watts
            elif partner in ("", "-"):
                alone[name], busy[name] = (rate, watts), number(row["utilisation"])
            else:
                pairs[name, partner] = rate, watts
    return alone, limited, pairs, busy, idle


def bills(matching, alone, pairs, busy, idle):
    """Watts of each of two on one card: by the Shapley value, by how busy each keeps the card alone, and half each. Idle power is shared evenly in the first two."""
    print(f"{'bill of a second, W':<46} {'card':>6} {'Shapley':>13} {'by busy':>13} {'half':>6}")
    for a, b in matching:
        card = pairs[a, b][1]
        above = card - idle
        first = 0.5 * ((alone[a][1] - idle) + (card - alone[b][1])) + idle / 2
        by_busy = above * busy[a] / (busy[a] + busy[b]) + idle / 2
        print(f"{a + ' + ' + b:<46} {card:6.0f} {first:6.0f} {card - first:6.0f} {by_busy:6.0f} {card - by_busy:6.0f} {card / 2:6.0f}")


def pair(a, b, alone, pairs):
    """Seconds and joules of two jobs that begin together."""
    work = {x: alone[x][0] * SECONDS for x in (a, b)}
    rates = {a: pairs[a, b][0], b: pairs[b, a][0]}
    first = min(work, key=lambda x: work[x] / rates[x])
    other = b if first == a else a
    together = work[first] / rates[first]
    left = (work[other] - together * rates[other]) / alone[other][0]
    return together + left, together * pairs[a, b][1] + left * alone[other][1]


def matchings(names):
    if not names:
        yield []
        return
    first, rest = names[0], names[1:]
    for i, other in enumerate(rest):
        for more in matchings(rest[:i] + rest[i + 1 :]):
            yield [(first, other)] + more


def main():
    alone, limited, pairs, busy, idle = read(sys.argv[1])
    names = sorted(alone)
    time, energy = SECONDS * len(names), sum(SECONDS * alone[n][1] for n in names)
    print(f"{len(names)} jobs of {SECONDS:.0f} s alone; idle {idle:.0f} W")
    print(f"one at a time                 energy 1.000  time 1.000   ({energy / 1e3:.0f} kJ, {time:.0f} s)")
    if len(names) % 2 == 0 and pairs:
        costs = {(a, b): pair(a, b, alone, pairs) for a in names for b in names if a < b}
        totals = []
        for matching in matchings(names):
            parts = [costs[p] for p in matching]
            totals.append((sum(e for _, e in parts) / energy, sum(t for t, _ in parts) / time, matching))
        for title, best in (("best matching by energy", min(totals)), ("best matching by time", min(totals, key=lambda t: t[1]))):
            print(f"{title:<29} energy {best[0]:.3f}  time {best[1]:.3f}")
            for a, b in best[2]:
                print(f"    {a} + {b}: {pairs[a, b][0] / alone[a][0]:.2f} and {pairs[b, a][0] / alone[b][0]:.2f} of alone")
        bills(min(totals)[2], alone, pairs, busy, idle)
        mean = [sum(t[i] for t in totals) / len(totals) for i in (0, 1)]
        print(f"mean over {len(totals)} matchings    energy {mean[0]:.3f}  time {mean[1]:.3f}")
    if limited:
        chosen = []
        for name in names:
            choices = [(None, *alone[name])] + [(limit, *limited[n, limit]) for n, limit in limited if n == name]
            chosen.append(min((watts / rate, limit or 0, rate / alone[name][0]) for limit, rate, watts in choices if rate > 0))
        saved = sum(per_step * alone[n][0] * SECONDS for n, (per_step, _, _) in zip(names, chosen))
        slower = sum(SECONDS / speed for _, _, speed in chosen)
        print(f"best limit for each job       energy {saved / energy:.3f}  time {slower / time:.3f}")
        for name, (_, limit, speed) in zip(names, chosen):
            print(f"    {name}: {'no limit' if not limit else f'{limit:.0f} W'}, {speed:.2f} of the speed")


main()
