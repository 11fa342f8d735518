"""table.py: the comparison as text. "-": unknown."""

import statistics

from strategy_runs import STALENESS  # noqa: F401: of the page, too

# Figures from the literature, each with its place in the source. `learners` and `speed_up` are
# given if the source itself states both: speed-ups across papers, whose baselines differ, would
# mean nothing. `share` replaces the speed-up if the source states a share of the linear speed-up.
# The speed-up is then derived here, and is marked as derived.
PUBLISHED = [
    {"source": "IBM, ICASSP 2019 (arXiv 1904.04956)", "set_up": "SWB2000, ADPSGD, 16 P100",
     "result": "14 h; WER 7.6 SWB, 13.1 CH", "read": "abstract"},
    {"source": "IBM, ICASSP 2019", "set_up": "the same, hybrid, 32 V100",
     "result": "11.5 h, from about a week on one V100", "read": "abstract and article"},
    {"source": "IBM, Interspeech 2019 (arXiv 1907.05701)", "set_up": "H-ADPSGD, 8 nodes of 8 V100, 100 Gbit Ethernet, batch 8,192",
     "result": "5.2 h; 7.6 / 13.2; 40 times one", "read": "abstract and article", "learners": 64, "speed_up": 40},
    {"source": "IBM, Interspeech 2019", "set_up": "the largest batch that converges",
     "result": "ADPSGD 12,288, synchronous 4,096: three times", "read": "abstract and article"},
    {"source": "IBM, ICASSP 2020 (arXiv 2002.01119)", "set_up": "64 V100", "result": "2.28 h; 7.5 / 13.3", "read": "abstract"},
    {"source": "IBM, ICASSP 2020", "set_up": "128 V100", "result": "1.98 h; 7.7 / 13.3", "read": "abstract"},
    {"source": "IBM, TASLP 2021 (arXiv 2110.11199)", "set_up": "128 V100, delay-by-one", "result": "below 2 h", "read": "abstract"},
    {"source": "AD-PSGD, ICML 2018", "set_up": "ResNet-50, up to 128 GPUs, a shared network",
     "result": "an epoch 4 to 8 times as fast as synchronous, with the same convergence an epoch", "read": "abstract"},
    {"source": "wav2letter++", "set_up": "100 million weights", "result": "linear to 64 GPUs", "read": "abstract",
     "learners": 64, "share": 1},
    {"source": "BlueFog", "set_up": "ResNet-50, 128 V100, 25 Gbit", "result": "over 95 % of linear", "read": "README",
     "learners": 128, "share": 0.95},
    {"source": "Horovod, as BlueFog says", "set_up": "the same", "result": "about 66 % of linear", "read": "README",
     "learners": 128, "share": 0.66},
]


def number(value, digits=3):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def percent(value, sign=""):
    return "-" if value is None else f"{100 * value:{sign}.2f} %"


def size(count):
    if count is None:
        return "-"
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1000 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000
    return "-"


def stale(facts):
    """mean/median/maximum of the staleness."""
    if facts is None:
        return "-"
    return f"{'>=' if facts['is_least'] else ''}{facts['mean']:.3g}/{facts['median']}/{facts['most']}"


def seconds_to(row, slow):
    place = row["to_target"].get(slow)
    return number(place["seconds"]) if place else "-"


def sent(row):
    return size(row["sent_bytes_a_sample"]) if row["learners"] > 1 and row.get("sent_bytes_a_sample") is not None else "-"


HEAD = ["strategy", "learners", "samples to target", "s to it", "1 slow", "2 slow", "sent a sample", "staleness",
        "WER", "least - most", "to one device", "within 0.5"]


def least_most(wers):
    """Range over several seeds, which shows how much of a difference may be chance."""
    return f"{100 * min(wers):.1f} - {100 * max(wers):.1f}" if wers and len(wers) > 1 else "-"


def cells(row):
    place = row["to_target"].get("0")
    more = row.get("wer_more")
    return [row["strategy"], str(row["learners"]), number(place["samples"] if place else None), seconds_to(row, "0"),
            seconds_to(row, "1"), seconds_to(row, "2"), sent(row), stale((row.get("staleness") or {}).get("0")),
            percent(row.get("wer")), least_most(row.get("wers")), percent(more, "+"), is_within(more)]


END_HEAD = ["strategy", "learners", "WER", "least - most", "to one device", "within 0.5"]


def is_within(more):
    return "-" if more is None else "yes" if more <= 0.005 + 1e-9 else "no"


def end_cells(row):
    return [row["strategy"], str(row["learners"]), percent(row["wer"]), least_most(row["wers"]), percent(row["wer_more"], "+"),
            is_within(row["wer_more"])]


BATCH_HEAD = ["strategy", "learners", "s of a step", "rate", "steps", "WER", "loss", "degrades"]


def mean(values):
    return sum(values) / len(values) if values else None


def is_measured(row):
    """A run that failed has diverged, which counts as a measurement. A run that was not allowed to
    finish does not count."""
    return bool(row["wers"]) or not row["failed"].startswith(("no time was left", "took longer"))


def degraded(rows):
    """From rows by strategy: the step length in seconds from which on the WER exceeds the best WER
    of one device by more than the margin, at this size and all larger ones. None: at no size."""
    best = min((mean(row["wers"]) for row in rows if row["strategy"] == "one device" and row["wers"]), default=None)
    found = {}
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        bad = None
        measured = [row for row in rows if row["strategy"] == strategy and is_measured(row)]
        for row in sorted(measured, key=lambda row: -row["batch_s"]):
            if best is None or (row["wers"] and mean(row["wers"]) <= best + 0.005):
                break
            bad = row["batch_s"]
        found[strategy] = bad
    return found


def batch_cells(row, from_s):
    return [row["strategy"], str(row["learners"]), f"{row['batch_s']:g}", f"{row['rate']:.3g}", number(row["steps"]),
            percent(mean(row["wers"])), number(mean(row["losses"])),
            "-" if not is_measured(row) else "yes" if from_s is not None and row["batch_s"] >= from_s else "no"]


REAL_HEAD = ["strategy", "processes", "utterances/s", "least - most", "to one", "stolen"]


def median(values):
    return statistics.median(values) if values else None


def real_cells(row, rows):
    one = next((median(r["utterances_per_s"]) for r in rows if r["strategy"] == row["strategy"] and r["processes"] == 1), None)
    speeds, stolen = row["utterances_per_s"], [share for share in row["stolen"] if share is not None]
    speed = median(speeds)
    return [row["strategy"], str(row["processes"]), number(speed),
            f"{number(min(speeds))} - {number(max(speeds))}" if len(speeds) > 1 else "-",
            number(speed / one if speed and one else None), f"{100 * max(stolen):.0f} %" if stolen else "-"]


def speed_ups(cluster):
    """{strategy: {learners: times one learner's speed}}. A single learner has jitter, too."""
    runs = [one for one in cluster["runs"] if not one["stopped"]]
    alone = next((one["share"] for one in runs if one["learners"] == 1), 1)
    found = {one["strategy"]: {} for one in cluster["runs"]}
    for one in runs:
        found[one["strategy"]][one["learners"]] = one["learners"] * one["share"] / alone
    return found


def simulated_rows(cluster):
    """One row per number of learners, one column per strategy: throughput as a multiple of one
    learner's."""
    found = speed_ups(cluster)
    every = dict.fromkeys(one["learners"] for one in cluster["runs"])
    rows = [[str(learners), *(number(of.get(learners)) for of in found.values())] for learners in every]
    return ["learners", *found], rows


def lines(head, rows):
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return "".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                             for i, (cell, width) in enumerate(zip(row, widths))).rstrip() + "\n" for row in [head, *rows])


def reasons(rows):
    """Failures with their reasons, one line per reason."""
    found = {}
    for row in rows:
        if row["failed"] is not None:
            found.setdefault(row["failed"], {}).setdefault(row["strategy"], {})[str(row["learners"])] = None
    return [", ".join(f"{name} ({', '.join(learners)})" for name, learners in names.items()) + f": {failed}"
            for failed, names in found.items()]


def titled(title, *table):
    return f"\n{title}\n\n" + lines(*table)


def text_of(result):
    text = (f"{result['clock'].capitalize()} clock, {result['epochs']} epochs. Target: a loss of {number(result['target_loss'], 4)}, "
            f"one device's behind {100 * result['target_at']:.0f} % of its utterances.\n")
    most = max(result["learners"])
    if "curves" in result:
        text += titled("Every strategy; seconds are the clock's", HEAD, [cells(row) for row in result["curves"]])
        text += "".join(line + "\n" for line in reasons(result["curves"]))
    if result.get("shares"):
        text += titled(f"Share of the ideal throughput, {most} learners", ["strategy", "0 slow", "1 slow", "2 slow"],
                       [[name, *(number(of.get(slow)) for slow in "012")] for name, of in result["shares"].items()])
    if "ends" in result:
        text += titled(f"Trained for {result['ends'][0]['epochs']} epochs", END_HEAD, [end_cells(row) for row in result["ends"]])
        text += "".join(line + "\n" for line in reasons(result["ends"]))
    if "batches" in result:
        bad = degraded(result["batches"])
        text += titled("Larger batches", BATCH_HEAD, [batch_cells(row, bad[row["strategy"]]) for row in result["batches"]])
        text += "".join(line + "\n" for line in reasons(result["batches"]))
    if "real" in result:
        text += titled(f"Real processes on {result['cores']} cores", REAL_HEAD,
                       [real_cells(row, result["real"]) for row in result["real"]])
    for cluster in result.get("simulated", []):
        text += titled(f"Times one learner's speed, simulated: {cluster['cluster']}", *simulated_rows(cluster))
    return text
