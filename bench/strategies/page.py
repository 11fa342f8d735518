"""page.py: the comparison as one self-contained page: well-formed, light and dark, without a
script. It looks like the pages of `speechshard report`."""

import math
from html import escape

import table

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 260, 52, 14, 24, 42
COLORS = 8
POINTS = 80  # per line

STYLE = """:root{color-scheme:light dark;
--bg:#f6f7f9;--card:#fff;--ink:#1c2733;--soft:#5b6875;--line:#dfe4ea;
--c0:#2f6fb4;--c1:#e08a2e;--c2:#3c9a6b;--c3:#8a63b8;--c4:#cc4f55;--c5:#2f9bb0;--c6:#a8882f;--c7:#97a2ae}
@media (prefers-color-scheme:dark){:root{
--bg:#12171d;--card:#1a2129;--ink:#e4e9ee;--soft:#98a5b3;--line:#2f3944;
--c0:#5b9bdc;--c1:#eea352;--c2:#5fbd8d;--c3:#ad8bd8;--c4:#e57b80;--c5:#56bdd1;--c6:#cbaf5a;--c7:#75818d}}
*{box-sizing:border-box}
body,svg text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
body{margin:0;background:var(--bg);color:var(--ink);font-size:14px;line-height:1.45}
main{max-width:1200px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:24px;margin:0} h2{font-size:17px;margin:0 0 12px} p{margin:6px 0}
.soft{color:var(--soft)}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:18px 20px;margin-top:16px}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th{font-weight:600;color:var(--soft);font-size:12.5px;text-align:left;white-space:nowrap}
td,th{padding:4px 14px 4px 0;vertical-align:top;border-bottom:1px solid var(--line)}
tr:last-child td{border-bottom:0}
.name{white-space:nowrap}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(320px,1fr));gap:20px}
svg.plot{display:block;width:100%;height:auto;max-width:640px}
svg text{font-size:11px;fill:var(--soft)}
svg .grid{stroke:var(--line)} svg .axis{stroke:var(--soft)}
svg .mark{stroke:var(--soft);stroke-dasharray:3 2}
.c0{fill:var(--c0);color:var(--c0)} .c1{fill:var(--c1);color:var(--c1)} .c2{fill:var(--c2);color:var(--c2)}
.c3{fill:var(--c3);color:var(--c3)} .c4{fill:var(--c4);color:var(--c4)} .c5{fill:var(--c5);color:var(--c5)}
.c6{fill:var(--c6);color:var(--c6)} .c7{fill:var(--c7);color:var(--c7)}
svg path[class]{fill:none;stroke:currentColor;stroke-width:1.6}
svg circle.ring[class]{fill:none;stroke:currentColor;stroke-width:1.6}
svg path.dashed[class]{stroke-dasharray:6 3}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:10px 0;font-size:13px}
.legend svg{width:22px;height:8px;margin-right:6px}
details{margin-top:10px} summary{cursor:pointer;color:var(--soft)}
code{font:12.5px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
"""


def few(points, most=POINTS):
    """At most `most` evenly spaced points, including the last one."""
    each = math.ceil(len(points) / most) if points else 1
    return [[p[0], round(p[1], 6), round(p[2], 5)] for i, p in enumerate(points) if (len(points) - 1 - i) % each == 0]


class Axis:
    """Maps the range of `values` to `from_` ... `to` in the picture."""

    def __init__(self, values, is_log, from_, to):
        self.is_log, self.from_, self.to = is_log, from_, to
        values = [self.of(value) for value in values]
        self.least, self.most = min(values), max(values)
        if not is_log and 0 < self.least < self.most / 2:
            self.least = 0
        if self.most - self.least < 1e-9:
            self.least, self.most = self.least - 0.5, self.most + 0.5

    def of(self, value):
        return math.log10(value) if self.is_log else value

    def place(self, value):
        return self.from_ + (self.of(value) - self.least) / (self.most - self.least) * (self.to - self.from_)

    def ticks(self):
        if self.is_log:
            wide = self.most - self.least
            steps = (1,) if wide > 2.5 else (1, 2, 5) if wide > 0.7 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
            values = [step * 10.0 ** power for power in range(math.floor(self.least), math.ceil(self.most) + 1)
                      for step in steps]
            return [value for value in values if self.least - 1e-9 <= math.log10(value) <= self.most + 1e-9]
        rough = (self.most - self.least) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * next(times for times in (1, 2, 5, 10) if rough <= times * power * (1 + 1e-9))
        first = math.ceil(self.least / step - 1e-9)
        return [i * step for i in range(first, first + 12) if i * step <= self.most + step * 1e-9]


def short(value):
    if abs(value) >= 1e6:
        return f"{value / 1e6:.4g} M"
    return f"{value / 1e3:.4g} k" if abs(value) >= 1e4 else f"{value:.4g}"


def text(x, y, anchor, words):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def rule(kind, x1, y1, x2, y2):
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def paint(number):
    """Classes of line `number`: a color, and dashes once all colors are used."""
    return f"c{number % COLORS}" + (" dashed" if number >= COLORS else "")


def figures(marks, x, y):
    """marks: [(x, y, whether the source states it or it is derived, its title)]: filled, or a
    ring."""
    return "".join(f'<circle class="c4{"" if is_said else " ring"}" cx="{x.place(a):.1f}" cy="{y.place(b):.1f}" r="4">'
                   f'<title>{escape(title)}</title></circle>' for a, b, is_said, title in marks)


def plot(title, labels, lines, logs=(False, False), level=None, dots=False, marks=(), x_ticks=None):
    """lines: [(name, index of its color, [(x, y)...])]; "" if there is nothing to draw."""
    lines = [(name, color, [p for p in points if all(not log or v > 0 for v, log in zip(p, logs))])
             for name, color, points in lines]
    lines = [line for line in lines if line[2]]
    if not lines:
        return ""
    every = [point for _, _, points in lines for point in points] + [mark[:2] for mark in marks]
    x = Axis([point[0] for point in every], logs[0], LEFT, WIDTH - RIGHT)
    y = Axis([point[1] for point in every] + ([level] if level is not None else []), logs[1], HEIGHT - BOTTOM, TOP)
    out = f'<div><svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{escape(title)}</title>'
    for value in y.ticks():
        out += rule("grid", LEFT, y.place(value), WIDTH - RIGHT, y.place(value))
        out += text(LEFT - 6, y.place(value) + 4, "end", short(value))
    for value in x_ticks or x.ticks():
        out += text(x.place(value), HEIGHT - BOTTOM + 16, "middle", short(value))
    out += rule("axis", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM)
    out += text(4, 14, "start", f"{title}: {labels[1]}")
    out += text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "middle", labels[0])
    if level is not None:
        out += rule("mark", LEFT, y.place(level), WIDTH - RIGHT, y.place(level))
    for name, color, points in lines:
        places = [f"{x.place(a):.1f} {y.place(b):.1f}" for a, b in points]
        out += f'<path class="{paint(color)}" d="M{"L".join(places)}"><title>{escape(name)}</title></path>'
        if dots or len(points) == 1:
            for place in places:
                cx, cy = place.split()
                out += f'<circle class="c{color % COLORS}" cx="{cx}" cy="{cy}" r="2.5"/>'
    return out + figures(marks, x, y) + "</svg></div>\n"


def legend(names):
    """names: [(name, index of its color)]."""
    out = '<div class="legend">'
    for name, color in names:
        out += f'<span><svg viewBox="0 0 22 8"><path class="{paint(color)}" d="M0 4L22 4"/></svg><bdi>{escape(name)}</bdi></span>'
    return out + "</div>\n"


def bars(title, labels, counts, color):
    """A plot of the share of each count."""
    total = sum(counts)
    wide = (WIDTH - LEFT - RIGHT) / len(counts)
    y = Axis([0, max(counts) / total], False, HEIGHT - BOTTOM, TOP)
    out = f'<div><svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{escape(title)}</title>'
    for value in y.ticks():
        out += rule("grid", LEFT, y.place(value), WIDTH - RIGHT, y.place(value))
        out += text(LEFT - 6, y.place(value) + 4, "end", f"{100 * value:.3g} %")
    for i, count in enumerate(counts):
        top = y.place(count / total)
        out += (f'<rect class="c{color % COLORS}" x="{LEFT + wide * (i + 0.1):.1f}" y="{top:.1f}" width="{0.8 * wide:.1f}" '
                f'height="{HEIGHT - BOTTOM - top:.1f}"><title>{labels[i]}: {count}</title></rect>')
        out += text(LEFT + wide * (i + 0.5), HEIGHT - BOTTOM + 16, "middle", labels[i])
    out += rule("axis", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM)
    out += text(4, 14, "start", f"{title}: share of updates")
    return out + text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "middle", "changes of others") + "</svg></div>\n"


def grid(head, rows):
    """The first cell of a row is text, the others are numbers."""
    def cell(tag, i, words):
        return f'<{tag} class="{"n" if i > 0 else "name"}">{escape(words)}</{tag}>'
    out = '<div class="wide"><table><thead><tr>' + "".join(cell("th", i, name) for i, name in enumerate(head))
    out += "</tr></thead><tbody>\n"
    for row in rows:
        out += "<tr>" + "".join(cell("td", i, words) for i, words in enumerate(row)) + "</tr>\n"
    return out + "</tbody></table></div>\n"


def section(title, *parts):
    body = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>\n{body}</section>\n" if body else ""


def soft(words):
    return f'<p class="soft">{escape(words)}</p>\n'


def plots(*parts):
    body = "".join(parts)
    return f'<div class="plots">\n{body}</div>\n' if body else ""


# ---------------------------------------------------------------------------------------------------- sections


def colors_of(result):
    names = [row["strategy"] for key in ("curves", "batches") for row in result.get(key, [])]
    names += [one["strategy"] for cluster in result.get("simulated", []) for one in cluster["runs"]]
    return {name: i for i, name in enumerate(dict.fromkeys(names + [row["strategy"] for row in result.get("real", [])]))}


def comparison(result, colors):
    rows = result.get("curves", [])
    most = max((row["learners"] for row in rows), default=1)
    drawn = [row for row in rows if row.get("curves") and row["learners"] in (1, most)]
    time_of = "s" if result["clock"] == "real" else "virtual s"

    def lines(slow, place):
        return [(row["strategy"], colors[row["strategy"]], [(p[place], p[2]) for p in row["curves"][slow]])
                for row in drawn if slow in row["curves"]]
    target = result["target_loss"]
    pictures = [plot("No straggler", ("utterances", "loss"), lines("0", 0), (False, True), target)]
    pictures += [plot(name, (time_of, "loss"), lines(slow, 1), (False, True), target)
                 for slow, name in (("0", "No straggler"), ("1", "One straggler"), ("2", "Two stragglers"))]
    words = (f"Target: a loss of {table.number(target, 4)}, which one device has behind {100 * result['target_at']:.0f} % of all "
             f"utterances; losses are means of the last {result['window']} utterances. {result['epochs']} epochs; "
             f"{result['seeds']} seeds for WER with {most} learners. Stragglers take {result['slow_factor']} times as long.")
    bad = "".join(soft(line) for line in table.reasons(rows))
    return section("Every strategy", soft(words), grid(table.HEAD, [table.cells(row) for row in rows]), bad,
                   legend([(row["strategy"], colors[row["strategy"]]) for row in drawn]), plots(*pictures)) if rows else ""


def shares(result):
    rows = [[name, *(table.number(of.get(slow)) for slow in "012")] for name, of in (result.get("shares") or {}).items()]
    words = ("What all learners do, of what they would do without each other, if all were alike; by the planner, with this "
             "task's step and link. Steps that jitter, by up to a tenth, take the rest of 1 where nobody waits.")
    return section("Share of the ideal throughput", soft(words), grid(["strategy", "no straggler", "one", "two"], rows)) if rows else ""


def staleness(result, colors):
    pictures = []
    for row in result.get("curves", []):
        for slow, counts in (row.get("staleness_counts") or {}).items():
            if counts and sum(counts) and row["learners"] == max(r["learners"] for r in result["curves"]) and slow in "01":
                title = f"{row['strategy']}, {'no straggler' if slow == '0' else 'one straggler'}"
                pictures.append(bars(title, table.STALENESS[:len(counts)], counts, colors[row["strategy"]]))
    return section("Staleness", soft("Changes of others between the reading of the weights that a gradient is of and its update."),
                   plots(*pictures)) if pictures else ""


def ends(result, _colors):
    rows, words = result.get("ends", []), "So much longer that WER hardly falls any more: what a strategy costs in the end."
    bad = "".join(soft(line) for line in table.reasons(rows))
    return section(f"Trained for {rows[0]['epochs']} epochs", soft(words),
                   grid(table.END_HEAD, [table.end_cells(row) for row in rows]), bad) if rows else ""


def batches(result, colors):
    rows = result.get("batches", [])
    if not rows:
        return ""
    bad = table.degraded(rows)
    names = list(dict.fromkeys(row["strategy"] for row in rows if table.is_measured(row)))

    def lines(key):
        return [(name, colors[name], [(row["batch_s"], table.mean(row[key])) for row in rows
                                      if row["strategy"] == name and row[key]]) for name in names]
    largest = max(row["batch_s"] for row in rows)
    told = [f"{name}: " + (f"not up to {largest:g} s" if bad[name] is None else f"from {bad[name]:g} s on") for name in names]
    words = "The rate grows with the step. Degraded: a WER more than 0.5 points above the best of one device: " + "; ".join(told) + "."
    pictures = [plot("WER", ("seconds of audio in a step, of all learners", "%"),
                     [(n, c, [(x, 100 * y) for x, y in p]) for n, c, p in lines("wers")], (True, False), dots=True),
                plot("Loss of the test", ("seconds of audio in a step, of all learners", "nats"), lines("losses"), (True, True), dots=True)]
    return section("Larger batches", soft(words), legend([(name, colors[name]) for name in names]), plots(*pictures),
                   grid(table.BATCH_HEAD, [table.batch_cells(row, bad[row["strategy"]]) for row in rows]),
                   "".join(soft(line) for line in table.reasons(rows)))


def real(result, colors):
    rows = result.get("real", [])
    names = list(dict.fromkeys(row["strategy"] for row in rows))
    lines = [(name, colors[name], [(row["processes"], table.median(row["utterances_per_s"])) for row in rows
                                   if row["strategy"] == name and row["utterances_per_s"]]) for name in names]
    words = (f"{result['machine']}: more processes than {result['cores']} share its cores, and can be no faster than {result['cores']}. "
             "Medians; stolen is what the host took of a run's processor time, at most.")
    return section("Real processes", soft(words), legend([(name, colors[name]) for name in names]),
                   plots(plot("Throughput", ("processes", "utterances/s"), lines, dots=True)),
                   grid(table.REAL_HEAD, [table.real_cells(row, rows) for row in rows])) if rows else ""


def marks_of(result, most):
    """Speed-ups from the literature, for at most `most` learners."""
    marks = []
    for p in result["published"]:
        if p.get("learners", most + 1) <= most and "speed_up" in p:
            marks.append((p["learners"], p["speed_up"], True, f"published, {p['source']}: {p['speed_up']:g} times, {p['learners']} learners"))
        elif p.get("learners", most + 1) <= most and "share" in p:
            marks.append((p["learners"], p["share"] * p["learners"], False,
                          f"derived: {100 * p['share']:g} % of {p['learners']} times, {p['source']}"))
    return marks


def simulated(result, colors):
    parts = []
    for cluster in result.get("simulated", []):
        found = table.speed_ups(cluster)
        every = list(dict.fromkeys(one["learners"] for one in cluster["runs"])) or [1]
        lines = [(name, colors[name], list(of.items())) for name, of in found.items()]
        lines.append(("ideal", 15, [(1, 1), (max(every), max(every))]))
        picture = plot("Speed", ("learners", "times one"), lines, (True, True), marks=marks_of(result, max(every)), x_ticks=every)
        head, rows = table.simulated_rows(cluster)
        parts += [f"<p>{escape(cluster['cluster'])}</p>\n", legend([(name, colors.get(name, 15)) for name in [*found, "ideal"]]),
                  plots(picture), grid(head, rows)]
    words = ("Times the speed of one learner. Published are other models on other machines: red dots are speed-ups that a source "
             "itself says, red rings are derived here from the share of the linear one that it says.")
    return section("1 to many, simulated", soft(words), *parts) if parts else ""


def published(result):
    rows = [[p["source"], p["set_up"], p["result"], p["read"]] for p in result["published"]]
    out = grid(["source", "what", "result", "read"], rows).replace(' class="n"', "").replace(' class="name"', "")
    return section("Published", soft("As the sources say; their baselines differ, so no speed-up is made across them."), out)


def commands(result):
    keys = ("curves", "ends", "batches", "real", "simulated")
    every = [word for key in keys for row in result.get(key, []) for word in row["commands"]]
    body = "".join(f"<p><code>{escape(word)}</code></p>\n" for word in dict.fromkeys(every))
    return section("Commands", f"<details><summary>{len(set(every))} runs</summary>\n{body}</details>\n")


def page_of(result):
    colors = colors_of(result)
    out = ('<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head><meta charset="utf-8"/>'
           '<meta name="viewport" content="width=device-width, initial-scale=1"/><title>Strategies</title>\n'
           f"<style>\n{STYLE}</style></head><body><main>\n<h1>Strategies</h1>\n")
    quick = " A quick run: few epochs, one seed; it shows that all works, and nothing else." if result["is_quick"] else ""
    out += soft(f"{result['program']}; {result['machine']}; {result['clock']} clock, link {result['link']}.{quick}")
    for part in (comparison, ends, staleness, batches, real, simulated):
        out += part(result, colors)
        out += shares(result) if part is comparison else ""
    return out + published(result) + commands(result) + "</main></body></html>\n"
