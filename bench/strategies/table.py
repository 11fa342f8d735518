"""table.py: what was compared, as text. What is not known is "-"."""

from runs import STALENESS  # noqa: F401: of the page, too

# Of shared figures of the literature, each with where it is said. `learners` and `speed_up` are given where the source
# itself says both: speed-ups across papers, whose baselines differ, are nobody's.
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
     "learners": 64, "speed_up": 64},
    {"source": "BlueFog", "set_up": "ResNet-50, 128 V100, 25 Gbit", "result": "over 95 % of linear", "read": "README",
     "learners": 128, "speed_up": 0.95 * 128},
    {"source": "Horovod, as BlueFog says", "set_up": "the same", "result": "about 66 % of linear", "read": "README",
     "learners": 128, "speed_up": 0.66 * 128},
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
    """mean/median/most."""
    if facts is None:
        return "-"
    return f"{'>=' if facts['is_least'] else ''}{facts['mean']:.3g}/{facts['median']}/{facts['most']}"


def seconds_to(row, slow):
    place = row["to_target"].get(slow)
    return number(place["seconds"]) if place else "-"


def sent(row):
    return size(row["sent_bytes_a_sample"]) if row["learners"] > 1 and row.get("sent_bytes_a_sample") is not None else "-"


HEAD = ["strategy", "learners", "samples to target", "s to it", "1 slow", "2 slow", "sent a sample", "staleness",
        "WER", "to one device", "within 0.5"]


def cells(row):
    place = row["to_target"].get("0")
    more = row.get("wer_more")
    within = "-" if more is None else "yes" if more <= 0.005 + 1e-9 else "no"
    return [row["strategy"], str(row["learners"]), number(place["samples"] if place else None), seconds_to(row, "0"),
            seconds_to(row, "1"), seconds_to(row, "2"), sent(row), stale((row.get("staleness") or {}).get("0")),
            percent(row.get("wer")), percent(more, "+"), within]


BATCH_HEAD = ["strategy", "learners", "s of a step", "rate", "steps", "WER", "loss", "degrades"]


def mean(values):
    return sum(values) / len(values) if values else None


def degraded(rows):
    """Of rows by strategy: the seconds of the first step whose WER is more than the margin above the best one of one
    device, and of all larger ones; None: none is."""
    best = min((mean(row["wers"]) for row in rows if row["strategy"] == "one device" and row["wers"]), default=None)
    found = {}
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        bad = None
        for row in sorted((row for row in rows if row["strategy"] == strategy), key=lambda row: -row["batch_s"]):
            wer = mean(row["wers"])
            if best is not None and (wer is None or wer > best + 0.005):
                bad = row["batch_s"]
            else:
                break
        found[strategy] = bad
    return found


def batch_cells(row, from_s):
    return [row["strategy"], str(row["learners"]), f"{row['batch_s']:g}", f"{row['rate']:.3g}", number(row["steps"]),
            percent(mean(row["wers"])), number(mean(row["losses"])),
            "yes" if from_s is not None and row["batch_s"] >= from_s else "no"]


REAL_HEAD = ["strategy", "processes", "utterances/s", "to one"]


def real_cells(row, rows):
    one = next((r["utterances_per_s"] for r in rows if r["strategy"] == row["strategy"] and r["processes"] == 1), None)
    speed = row["utterances_per_s"]
    return [row["strategy"], str(row["processes"]), number(speed), number(speed / one if speed and one else None)]


def share(one):
    return None if one["stopped"] else one["share"]


def simulated_rows(cluster):
    """A row a number of learners, a column a strategy: times one learner's speed, were it alone."""
    names = list(dict.fromkeys(one["strategy"] for one in cluster["runs"]))
    rows = []
    for learners in dict.fromkeys(one["learners"] for one in cluster["runs"]):
        of = {one["strategy"]: share(one) for one in cluster["runs"] if one["learners"] == learners}
        rows.append([str(learners), *(number(of[n] * learners if of.get(n) is not None else None) for n in names)])
    return ["learners", *names], rows


def lines(head, rows):
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return "".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                             for i, (cell, width) in enumerate(zip(row, widths))).rstrip() + "\n" for row in [head, *rows])


def text_of(result):
    text = f"{result['clock']} clock, {result['epochs']} epochs, target {number(result['target_loss'], 4)}\n"
    if "curves" in result:
        text += lines(HEAD, [cells(row) for row in result["curves"]])
        text += "".join(f"{row['strategy']}, {row['learners']} learners: {row['failed']}\n"
                        for row in result["curves"] if row["failed"] is not None)
    if result.get("shares"):
        text += "\n" + lines(["of ideal", "0 slow", "1 slow", "2 slow"],
                             [[name, *(number(of.get(slow)) for slow in "012")] for name, of in result["shares"].items()])
    if "batches" in result:
        bad = degraded(result["batches"])
        text += "\n" + lines(BATCH_HEAD, [batch_cells(row, bad[row["strategy"]]) for row in result["batches"]])
    if "real" in result:
        text += f"\n{result['cores']} cores\n"
        text += lines(REAL_HEAD, [real_cells(row, result["real"]) for row in result["real"]])
    for cluster in result.get("simulated", []):
        text += f"\n{cluster['cluster']}\n" + lines(*simulated_rows(cluster))
    return text
