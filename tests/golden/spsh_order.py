#!/usr/bin/env python3
"""A second implementation of the loader's order, written from docs/reference/LOADER.md, for tests.

    dump_order | spsh_order.py      prints what dump_order printed, from the lines of input alone

Slow and plain: a whole epoch is made at once, and no state is kept but the position in each stream.
"""
import json
import struct
import sys
from bisect import bisect_left

try:
    import xxhash
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

MASK = 2**64 - 1
G = 0x9E3779B97F4A7C15
ORDER, RUN, SPEAKER, TIE, BATCHES, SUBSTITUTE = 1, 2, 3, 4, 5, 6
IN_ORDER, DROP_LAST, BY_CHANNELS = 1, 2, 4
EMPTY, STEP_END = 1, 2
SECONDS, UTTERANCES, TOKENS = 0, 1, 2
DROP, SPLIT = 1, 2
EPOCHS, ATTEMPTS = 3, 3
MIX_BATCHES = 8


# ---- 1. lengths ----

def microseconds(samples, rate):
    return -(-samples * 1000000 // rate)


def bound(seconds):
    return int(seconds * 1e6 + 0.5)


# ---- 2. draws ----

def mix(x):
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def draw(seed, a, b, c):
    x = mix(seed + G & MASK)
    for value in (a, b, c):
        x = mix(x ^ (value + G & MASK))
    return x


class Permutation:
    def __init__(self, count, key):
        self.count, self.bits = count, max(2, (count - 1).bit_length())
        self.keys = [draw(key, i, self.bits, 0) for i in range(6)]

    def __call__(self, index):
        if self.count < 2:
            return index
        while True:
            index = self.once(index)
            if index < self.count:
                return index

    def once(self, index):
        left = self.bits // 2
        right = self.bits - left
        high, low = index >> right, index & (1 << right) - 1
        for key in self.keys:
            high, low = low, high ^ (mix(low + key & MASK) >> (64 - left))
            left, right = right, left
        return high << right | low


# ---- 3. what is served ----

class Utterance:
    def __init__(self, dataset, position, row):
        self.dataset, self.position = dataset, position
        (self.samples, self.rate, self.channels, self.domain, self.split, self.speaker, self.language,
         self.text, self.copy_of) = row
        self.length = microseconds(self.samples, self.rate)


def name(word, number):
    return word + str(number) if number else ""


class Plan:
    def __init__(self, options):
        o = self.o = options
        if not (o["utterances"] or o["seconds"] or o["padded"]):
            o["seconds"] = 600
        self.seed = o["seed"]
        self.utterances_max = o["utterances"] or None
        self.seconds_max = bound(o["seconds"]) if o["seconds"] else None
        self.padded_max = bound(o["padded"]) if o["padded"] else None
        self.item_max = min((b for b in (self.seconds_max, self.padded_max) if b), default=None)
        self.in_order = bool(o["flags"] & IN_ORDER)
        self.datasets = [[Utterance(d, p, row) for p, row in enumerate(rows)]
                         for d, rows in enumerate(o["rows"])]
        self.make_domains()
        self.make_shares()
        window = o["window"] or 65536
        self.windows = -(-self.count // window)
        self.made = {}

    def weight_of(self, u):
        for domain, dataset, weight in self.o["weights"]:
            if domain == name("domain", u.domain) and dataset in (-1, u.dataset):
                return weight
        return None

    def passes_alone(self, u):
        o = self.o
        for key, word, number in (("splits", "split", u.split), ("domains", "domain", u.domain),
                                  ("languages", "language", u.language)):
            if o[key] and name(word, number) not in o[key]:
                return False
        if o["weights"] and self.weight_of(u) is None:
            return False
        if u.length < bound(o["min"]) or o["max"] and u.length > bound(o["max"]):
            return False
        return self.item_max is None or u.length <= self.item_max or o["long"] == SPLIT

    def passing(self, dataset, utterances):
        passing = [u for u in utterances if self.passes_alone(u)]
        if self.o["once"]:
            first = {}
            for u in passing:
                first.setdefault(u.copy_of - 1 if u.copy_of else u.position, u)
            passing = sorted(first.values(), key=lambda u: u.position)
        most = self.o["speaker"]
        if most:
            draws = {}
            for u in passing:
                if u.speaker:
                    draws.setdefault(u.speaker, []).append(draw(self.seed, dataset, u.position, SPEAKER))
            for values in draws.values():
                values.sort()
            passing = [u for u in passing
                       if not u.speaker or draw(self.seed, dataset, u.position, SPEAKER) in
                       draws[u.speaker][:most]]
        return passing

    def make_domains(self):
        """Numbered by dataset, then by name; utterances without a domain come last."""
        self.domains = []
        for dataset, utterances in enumerate(self.datasets):
            members = {}
            for u in self.passing(dataset, utterances):
                members.setdefault(u.domain, []).append(u)
            for number in sorted(members, key=lambda n: n or MASK):
                self.domains.append(members[number])
        self.count = sum(len(d) for d in self.domains)

    def units(self, u):
        return max(1, (u.length, 1, u.text)[self.o["unit"]])

    # ---- 5. mixing: shares ----

    def make_shares(self):
        o, domains = self.o, self.domains
        units = [sum(self.units(u) for u in d) for d in domains]
        self.proportional = len(domains) == 1 or (not o["weights"] and o["alpha"] == 1)
        if self.proportional:
            self.weights = units
            return
        if o["weights"]:
            shares = [self.weight_of(d[0]) for d in domains]
        else:
            shares = [(u / max(units)) ** o["alpha"] for u in units]
        largest, total = max(shares), 0.0
        for share in shares:
            total += share / largest
        self.weights = [max(1, int(share / largest / total * 2.0**61)) for share in shares]
        if o["unit"] == UTTERANCES:
            self.weights = self.items = self.whole_shares()
            return
        items = [(w * len(d) << 20) // u for w, d, u in zip(self.weights, domains, units)]
        shift = 0
        while sum(i + 1 for i in items) >> shift >= 1 << 61:
            shift += 1
        self.items = [max(1, i >> shift) for i in items]

    def whole_shares(self):
        """Utterances of an epoch by domain: at least one, else by largest remainders."""
        left, weights, counts = self.count, sum(self.weights), {}
        again = True
        while again:
            again = False
            for d, weight in enumerate(self.weights):
                if d not in counts and weight * left < weights:
                    counts[d], again = 1, True
                    left -= 1
                    weights -= weight
        others = [d for d in range(len(self.weights)) if d not in counts]
        for d in others:
            counts[d] = self.weights[d] * left // weights
        undealt = left - sum(counts[d] for d in others)
        others.sort(key=lambda d: (-(self.weights[d] * left % weights), d))
        for d in others[:undealt]:
            counts[d] += 1
        return [counts[d] for d in range(len(counts))]

    def starts(self, epoch):
        """Position in each stream at which an epoch begins."""
        if self.proportional:
            return [epoch * len(d) for d in self.domains]
        if self.o["unit"] == UTTERANCES:
            return [epoch * items for items in self.items]
        return [epoch * self.count * items // sum(self.items) for items in self.items]

    # ---- 4. streams ----

    def pass_order(self, domain, number):
        count, run = len(self.domains[domain]), self.o["run"]
        if self.in_order:
            return list(range(count))
        if run <= 1:
            p = Permutation(count, draw(self.seed, domain, number, ORDER))
            return [p(i) for i in range(count)]
        full = count // run
        p = Permutation(full, draw(self.seed, domain, number, ORDER))
        short = list(range(full * run, count))
        before = 1 if full == 1 else draw(self.seed, domain, number, RUN) % (full + 1)
        order = []
        for r in range(full):
            if r == before:
                order += short
            order += range(p(r) * run, (p(r) + 1) * run)
        return order + (short if before >= full else [])

    def at(self, domain, index):
        number, place = divmod(index, len(self.domains[domain]))
        if (domain, number) not in self.made:
            self.made[domain, number] = self.pass_order(domain, number)
        return self.domains[domain][self.made[domain, number][place]]

    # ---- 5. mixing: the sequence ----

    def sequence(self, epoch):
        """(domain, index, utterance) for each utterance of an epoch."""
        index, ends = self.starts(epoch), self.starts(epoch + 1)
        weights = self.weights
        ending = self.proportional or self.o["unit"] == UTTERANCES
        served, total, result = [0] * len(index), 0, []
        all_weights = sum(weights)
        while len(result) < self.count:
            best = None
            for d, weight in enumerate(weights):
                if ending and index[d] >= ends[d] or served[d] * all_weights > weight * total:
                    continue
                finish = served[d] + self.units(self.at(d, index[d]))
                if best is None or finish * weights[best[1]] < best[0] * weight:
                    best = (finish, d)
            d = best[1]
            u = self.at(d, index[d])
            result.append((d, index[d], u))
            served[d] += self.units(u)
            total += self.units(u)
            index[d] += 1
        return result

    # ---- 6. windows ----

    def parts(self, u):
        if self.item_max is None or u.length <= self.item_max:
            return 1
        most = self.item_max * u.rate // 1000000
        return -(-u.samples // most)

    def class_of(self, u):
        return (0 if self.o["rate"] else u.rate, u.channels if self.o["flags"] & BY_CHANNELS else 0)

    def make_items(self, epoch, entries):
        items = []
        tie_key = draw(self.seed, epoch, 0, TIE)
        for d, index, u in entries:
            q = self.parts(u)
            for p in range(q):
                start, end = p * u.samples // q, (p + 1) * u.samples // q
                tie = 0
                if not self.proportional or self.o["run"] > 1 or self.windows < MIX_BATCHES:
                    tie = draw(tie_key, u.dataset, u.position, p)
                    tie = tie >> 32 if self.proportional else tie
                items.append(Item(d, index, u, p, start, end - start, tie))
                items[-1].number = index // len(self.domains[d])
        return items

    def fits(self, batch, item):
        if not batch:
            return True
        longest = max(max(i.length for i in batch), item.length)
        return ((self.utterances_max is None or len(batch) < self.utterances_max) and
                (self.seconds_max is None or
                 sum(i.length for i in batch) + item.length <= self.seconds_max) and
                (self.padded_max is None or longest * (len(batch) + 1) <= self.padded_max))

    def mixed(self, items):
        """Runs of utterances adjacent in length, each in the order of ties, if there are few
        windows."""
        if self.windows >= MIX_BATCHES:
            return items
        batches = [[]]
        for item in reversed(items):
            if not self.fits(batches[-1], item):
                batches.append([])
            batches[-1].append(item)
        most = -(-(-(-MIX_BATCHES // self.windows) * len(items)) // len(batches))
        runs = []
        for item in reversed(items):
            last = runs[-1] if runs else None
            if last and (len(last) < most and item.length * 10 >= last[0].length * 9 or
                         last[-1].key() == item.key()):
                last.append(item)
            else:
                runs.append([item])
        return [i for run in reversed(runs) for i in sorted(reversed(run), key=lambda i: i.tie)]

    def run_batches(self):
        return 7 // self.windows + 1

    def mix(self, items):
        """Items of one class, sorted: adjacent in length, run by run, by tie."""
        rest, batches = items[:], 0
        while rest:
            batch = []
            while rest and self.fits(batch, rest[-1]):
                batch.append(rest.pop())
            batches += 1
        most = -(-self.run_batches() * len(items) // batches)
        rest, runs = items[:], []
        while rest:
            run = [rest.pop()]
            while rest and (rest[-1].key() == run[-1].key() or
                            len(run) < most and rest[-1].length * 10 >= run[0].length * 9):
                run.append(rest.pop())
            runs.append(sorted(run[::-1], key=lambda i: i.tie))
        return [i for run in runs[::-1] for i in run]

    def cut(self, items):
        batches, waiting = [], []
        while items or waiting:
            batch, still = [], []
            for at, (item, copies) in enumerate(waiting):
                if not self.fits(batch, item):
                    still += waiting[at:]
                    break
                batch.append(item)
                if copies > 1:
                    still.append((item, copies - 1))
            waiting = still
            while items and self.fits(batch, items[-1]):
                item, copies = items.pop(), 0
                batch.append(item)
                while items and items[-1].key() == item.key():
                    items.pop()
                    copies += 1
                if copies:
                    waiting.append((item, copies))
            batches.append(batch)
        return batches

    def window(self, epoch, number, entries):
        items = self.make_items(epoch, entries)
        if self.in_order:
            batches = []
            for item in items:
                if (not batches or not self.fits(batches[-1], item) or
                        self.class_of(batches[-1][0].u) != self.class_of(item.u) or
                        any(i.key() == item.key() for i in batches[-1])):
                    batches.append([])
                batches[-1].append(item)
            return items, batches
        items.sort(key=lambda i: (self.class_of(i.u), i.length, i.tie))
        batches = []
        for one in sorted({self.class_of(i.u) for i in items}, reverse=True):
            batches += self.cut(self.mixed([i for i in items if self.class_of(i.u) == one]))
        order = [i for batch in batches for i in batch]
        for i in range(len(batches), 1, -1):
            other = draw(self.seed, epoch, number << 8 | BATCHES, i) * i >> 64
            batches[i - 1], batches[other] = batches[other], batches[i - 1]
        return order, batches

    def epoch(self, epoch):
        sequence = self.sequence(epoch)
        first = [k * self.count // self.windows for k in range(self.windows + 1)]
        return [self.window(epoch, k, sequence[first[k]:first[k + 1]]) for k in range(self.windows)]

    # ---- 9. substitutes ----

    def substitutes(self, epoch, order, batch):
        item = batch[0]
        keys = {i.key() for i in batch}
        candidates = [i for i in order if i.d == item.d and i.length <= item.length and
                      self.class_of(i.u) == self.class_of(item.u) and i.key() not in keys]
        p = Permutation(len(candidates),
                        draw(self.seed, epoch, item.u.position << 16 | item.part, SUBSTITUTE))
        return [candidates[p(i)] for i in range(min(ATTEMPTS, len(candidates)))]


class Item:
    def __init__(self, d, index, u, part, start, samples, tie):
        self.d, self.index, self.u, self.part = d, index, u, part
        self.start, self.samples, self.tie = start, samples, tie
        self.length = microseconds(samples, u.rate)

    def key(self):
        return self.u.dataset, self.u.position, self.part

    def __str__(self):
        return f"{self.u.dataset}/{self.u.position}/{self.start}/{self.samples}/{self.number}"


# ---- 7. dealing, 8. cursor ----

def cursor(plan, epoch, batches, window, window_batch):
    head = b"SPSHCUR1" + struct.pack("<Q", plan.seed) + bytes.fromhex(plan.o["keys"])
    head += struct.pack("<QQIIII", epoch, batches, window, window_batch, 0, 0)
    return (head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head)))[40:].hex()


def print_order(plan):
    world, virtual = plan.o["world_size"], plan.o["virtual"]
    for epoch in range(EPOCHS):
        windows = plan.epoch(epoch)
        ends, batches = [], []
        for number, (order, window) in enumerate(windows):
            batches += [(number, at, order, batch) for at, batch in enumerate(window)]
            ends.append(len(batches))
        place = call = 0
        while place < len(batches):
            left = virtual - place % virtual if virtual else world
            if plan.o["flags"] & DROP_LAST and len(batches) - place < left:
                break
            after = min(place + min(world, left), len(batches))
            step_ends = after - place == left or after == len(batches)
            window = bisect_left(ends, after + 1)
            in_window = after - (ends[window - 1] if window else 0)
            behind = cursor(plan, epoch, after, window, in_window)
            for rank in range(world):
                flags = STEP_END if step_ends else 0
                batch = batches[place + rank] if place + rank < after else None
                flags |= 0 if batch else EMPTY
                items = "".join(" " + str(i) for i in batch[3]) if batch else ""
                print(f"epoch {epoch} call {call} rank {rank} flags {flags} "
                      f"step {place // (virtual or world)} {behind}{items}")
                if batch and batch[1] == 0:
                    others = plan.substitutes(epoch, batch[2], batch[3])
                    print("substitutes of:" + "".join(" " + str(i) for i in others))
            place, call = after, call + 1


for line in sys.stdin:
    if line.startswith("{"):
        print(line, end="")
        print_order(Plan(json.loads(line)))
    elif line.startswith("seed"):
        print(line, end="")
