#!/usr/bin/env python3
"""A second reader of the format, written only from docs/reference/FORMAT.md, for tests.

    spsh_reader.py DATASET       one JSON object per utterance
    spsh_reader.py SHARD.spsh    checks one shard

It checks checksums, padding, and counts, and derives the indexes again from their sources. It exits
with 1 on any disagreement.
"""
import json
import os
import struct
import sys
from itertools import accumulate

try:
    import lz4.block
    import xxhash
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

PAGE, SECTION_PAGE, NONE32, NONE64 = 4096, 65536, 2**32 - 1, 2**64 - 1
SHARD, MANIFEST, INDEX, OVERLAY, SEGMENT, CHECKPOINT = 1, 2, 3, 4, 5, 7
h128, h64 = xxhash.xxh3_128_digest, xxhash.xxh3_64_intdigest
NAMES = ("domain", "split", "speaker", "language", "document")


class Damage(Exception):
    pass


def must(condition, *what):
    if not condition:
        raise Damage(" ".join(str(w) for w in what))


def up(value, alignment):
    return (value + alignment - 1) // alignment * alignment


def u(fmt, data, at=0):
    return struct.unpack_from("<" + fmt, data, at)


def zero(data):
    return data.count(0) == len(data)


def number(names, name):
    """Names are numbered in order of first appearance."""
    return NONE32 if name == "" else names.setdefault(name, len(names))


class Container:
    """Section 2: header, sections, page table, footers."""

    def __init__(self, path, kind):
        with open(path, "rb") as file:
            self.path, self.data = path, file.read()
        data = self.data
        must(data[:8] == b"\x89SPSH\r\n\x1a", path, "magic")
        self.file_id = data[16:32]
        self.header_checksum = u("Q", data, 8)[0]
        must(self.header_checksum == self.checksum(0, data[16:PAGE]), path, "header")
        self.kind, major, _minor, _ignore, _readonly, refuse = u("IHHQQQ", data, 32)
        must(major == 1 and refuse == 0 and self.kind == kind, path, "version or kind")
        self.dataset_id = data[64:80]
        self.ordinal, self.sub_ordinal, page_bytes, self.first_record, _ = u("QIIQQ", data, 80)
        must(page_bytes == SECTION_PAGE and zero(data[112:PAGE]) and
             (kind == SHARD or zero(data[96:112] + data[88:92] * (kind not in (SEGMENT, CHECKPOINT)))), path, "header fields")
        self.read_footers()
        self.read_sections()

    def checksum(self, offset, data):
        seed = u("Q", self.file_id)[0] ^ (offset * 0x9E3779B97F4A7C15 % 2**64)
        return h64(data, seed)

    def read_footers(self):
        for copy in (1, 0):
            at = len(self.data) - 2 * PAGE + copy * PAGE
            footer = self.data[at:at + PAGE]
            must(footer[4088:] == b"SPSHEND\n", self.path, "footer", copy, "magic")
            must(u("Q", footer, 4080)[0] == self.checksum(at, footer[:4080]), self.path, "footer")
            must(u("I", footer, 120)[0] == copy and zero(footer[124:4080]), self.path, "footer")
        must(footer[:120] == self.data[-PAGE:120 - PAGE], self.path, "footers differ")
        (kind, self.section_count, size, self.area, self.area_bytes, self.table, self.table_bytes,
         self.page_count, self.table_checksum, self.block_count) = u("IIQQQQQQQQ", footer, 16)
        self.root_hash = footer[88:104]
        self.record_count, self.utterance_count = u("QQ", footer, 104)
        must((footer[:16], kind, size) == (self.file_id, self.kind, len(self.data)), self.path)
        must(self.section_count <= 256 and self.area % PAGE == self.area_bytes % PAGE == 0)
        pages = up(self.area_bytes, SECTION_PAGE) // SECTION_PAGE
        must((self.table, self.page_count, self.table_bytes, size) ==
             (self.area + self.area_bytes, pages, up(pages * 8, PAGE),
              self.table + self.table_bytes + 2 * PAGE), self.path, "footer: layout")
        if kind != SHARD:
            must(self.block_count == 0 and self.area == PAGE and self.record_count == 0, self.path)
            self.check_root([])

    def check_root(self, block_checksums):
        sums = [self.header_checksum, *block_checksums, self.table_checksum]
        must(self.root_hash == h128(struct.pack("<%dQ" % len(sums), *sums)), self.path, "root hash")

    def read_sections(self):
        data, end, table = self.data, self.table, self.data[self.table:][:self.table_bytes]
        must(self.table_checksum == self.checksum(end, table), self.path, "page table")
        must(zero(table[self.page_count * 8:]), self.path, "page table padding")
        for page in range(self.page_count):
            at = self.area + page * SECTION_PAGE
            found = self.checksum(at, data[at:min(at + SECTION_PAGE, end)])
            must(u("Q", table, page * 8)[0] == found, self.path, "index page", page)
        self.sections, last, at = {}, -1, self.area + 40 * self.section_count
        for n in range(self.section_count):
            ident, width, offset, count, *rest = u("IIQQQQ", data, self.area + 40 * n)
            must(ident > last and width in (1, 2, 4, 8, 16) and rest == [0, 0] and
                 offset == up(at, 64) and zero(data[at:offset]), self.path, "section", ident)
            last, at = ident, offset + count * width
            must(at <= end, self.path, "section", ident, "leaves the area")
            self.sections[ident] = (width, data[offset:at])
        must(up(at, PAGE) == end and zero(data[at:end]), self.path, "section area's tail")

    def column(self, ident, width, count=None):
        have, raw = self.sections.get(ident, (0, b""))
        must(have == width and count in (None, len(raw) // width), self.path, "section", ident)
        if width == 16:
            return [raw[i:i + 16] for i in range(0, len(raw), 16)]
        return list(struct.unpack("<%d%s" % (len(raw) // width, " BH I   Q"[width]), raw))

    def strings(self, ident, count=None):
        ends, (width, raw) = self.column(ident, 8, count), self.sections[ident + 1]
        must(width == 1 and ends == sorted(ends) and [0, *ends][-1] == len(raw), self.path)
        return [raw[a:b].decode("utf-8") for a, b in zip([0] + ends, ends)]


class Shard(Container):
    """Section 3."""

    FIXED = {2: ("record", "Q"), 3: ("start_sample", "Q"), 4: ("samples", "Q"), 5: ("flags", "I")}
    STRINGS = {1: "id", 6: "domain", 7: "split", 8: "speaker", 9: "language", 10: "document",
               11: "text", 12: "source", 13: "extras"}

    def __init__(self, path):
        super().__init__(path, SHARD)
        identity = struct.pack("<QQ", self.ordinal, self.sub_ordinal)
        must(self.file_id == h128(self.dataset_id + identity), path, "file_id")
        self.records, self.rows, self.metadata_blocks = [], [], []
        sums, offsets, at = [], [], PAGE
        while at < self.area:
            size, checksum = self.read_block(at, len(sums))
            sums.append(checksum)
            offsets.append(at)
            at += size
        found = len(sums), len(self.records), len(self.rows)
        must(found == (self.block_count, self.record_count, self.utterance_count), path, "counts")
        self.check_root(sums)
        self.check_index(offsets)

    def read_block(self, at, ordinal):
        data, where = self.data, (self.path, "block at", at)
        checksum, magic, kind, size, used, first, count, flags, *rest = u("Q4sIQQQIIQQ", data, at)
        must(magic == b"SPBK" and kind in (1, 2) and rest == [ordinal, 0], *where)
        must(size % PAGE == 0 and PAGE <= size <= self.area - at and 64 < used <= size and
             count >= 1 and flags == (size > 4 << 20), *where)
        must(not flags or (count == 1 and kind == 1), *where, "oversize")
        must(checksum == self.checksum(at, data[at + 8:at + size]) and
             zero(data[at + used:at + size]), *where, "checksum or padding")
        if kind == 2:
            must(first == len(self.rows), *where, "first")
            self.metadata_blocks.append((at, first))
            self.read_metadata(data[at:at + used], count, where)
            return size, checksum
        end = at + 64
        must(first == len(self.records), *where, "first")
        for _ in range(count):
            end = self.read_record(end, at + used)
        must(end == at + used, *where, "used_bytes")
        return size, checksum

    def read_record(self, at, end):
        data, where = self.data, (self.path, "record at", at)
        (checksum, magic, head, payload_bytes, ordinal, samples, rate, nominal, channels, codec,
         sample_format, bits, flags, id_bytes) = u("Q4sIQQQIIHHHHII", data, at)
        must(magic == b"SREC" and head <= 16 << 20 and head + payload_bytes <= end - at, *where)
        must(checksum == self.checksum(at, data[at + 8:at + head]), *where, "head checksum")
        pcm_hash, payload_hash = data[at + 64:at + 80], data[at + 80:at + 96]
        seeks, pages = u("II", data, at + 96)
        must(ordinal == len(self.records) and zero(data[at + 104:at + 128]), *where)
        must(1000 <= rate <= 768000 and 1 <= channels <= 64 and bits <= 64 and
             codec in (1, 2, 3, 4, 5, 6, 16, 17) and sample_format in (1, 2, 3) and
             (nominal == rate or codec == 5), *where, "audio fields")
        must(flags < 32 and (not flags & 6 if flags & 1 else zero(pcm_hash)), *where, "flags")
        must(1 <= id_bytes <= 4096, *where, "id_bytes")
        id_end, seek_at = at + 128 + id_bytes, at + 128 + up(id_bytes, 8)
        sums_at, sums_end = seek_at + 16 * seeks, seek_at + 16 * seeks + 8 * pages
        must(up(sums_end - at, 64) == head, *where, "head_bytes")
        must(zero(data[id_end:seek_at]) and zero(data[sums_end:at + head]), *where, "padding")
        points = [u("QQ", data, seek_at + 16 * i) for i in range(seeks)]
        ascends = all(a[0] < b[0] and a[1] < b[1] for a, b in zip(points, points[1:]))
        must(not points or (ascends and points[0][0] == 0 and points[-1][0] < samples and
                            points[-1][1] < payload_bytes), *where, "seek table")
        body, stop = at + head, at + head + up(payload_bytes, 64)
        must(pages == up(stop - body, SECTION_PAGE) // SECTION_PAGE, *where, "page_count")
        for page, begin in enumerate(range(body, stop, SECTION_PAGE)):
            must(u("Q", data, sums_at + 8 * page)[0] ==
                 self.checksum(begin, data[begin:min(begin + SECTION_PAGE, stop)]), *where, "page")
        payload = data[body:body + payload_bytes]
        must(payload_hash == h128(payload) and zero(data[body + len(payload):stop]), *where)
        self.records.append({
            "id": data[at + 128:id_end].decode(), "offset": at, "bytes": stop - at,
            "payload": payload, "samples": samples, "rate": rate, "channels": channels,
            "codec": codec, "pcm_hash": pcm_hash if flags & 1 else None,
            "index": (at, head, payload_bytes, samples, rate, nominal, channels, codec,
                      sample_format, bits, flags, pcm_hash, payload_hash)})
        return stop

    def read_columns(self, block, where):
        columns, reserved = u("II", block, 64)
        must(columns <= 64 and reserved == 0, *where, "column_count")
        found, last, at = {}, 0, 72 + 32 * columns
        for n in range(columns):
            ident, encoding, offset, stored, raw_bytes = u("IIQQQ", block, 72 + 32 * n)
            must(ident > last and offset == up(at, 8) and zero(block[at:offset]), *where, ident)
            must(raw_bytes <= 1 << 30 and raw_bytes <= 256 * stored + 64, *where, "raw_bytes")
            last, at = ident, offset + stored
            must(at <= len(block), *where, "column", ident)
            if ident in self.FIXED or ident in self.STRINGS:
                raw = block[offset:at]
                found[ident] = lz4.block.decompress(raw, raw_bytes) if encoding == 1 else raw
                must(encoding <= 1 and len(found[ident]) == raw_bytes, *where, "column", ident)
        must(at == len(block) and all(c in found for c in range(1, 6)), *where, "columns")
        return found

    def read_metadata(self, block, count, where):
        rows = [{name: "" for name in self.STRINGS.values()} for _ in range(count)]
        for ident, raw in self.read_columns(block, where).items():
            name, code = self.FIXED.get(ident, (self.STRINGS.get(ident), "I"))
            values, end = u("%d%s" % (count, code), raw), count * struct.calcsize(code)
            for row, value in zip(rows, values):
                row[name] = value if ident in self.FIXED else raw[end:end + value].decode()
                end += 0 if ident in self.FIXED else value
            must(end == len(raw), *where, name)
        for row in rows:
            here, inside = (*where, "row", row["id"]), row["record"] - self.first_record
            must(1 <= len(row["id"].encode()) <= 4096, *here, "id")
            must(row["flags"] in ((0, 1) if row["text"] == "" else (1,)), *here, "flags")
            must(inside < len(self.records), *here, "record")
            must(inside < 0 or row["start_sample"] + row["samples"] <=
                 self.records[inside]["samples"], *here, "segment")
        self.rows += rows

    def check_index(self, block_offsets):
        """Derive all of section 3.4 and compare."""
        want = {i + 1: [r["index"][i] for r in self.records] for i in range(13)}
        widths = dict(zip((*range(1, 14), 32, 34, 35, 36, 64, 96),
                          (8, 4, 8, 8, 4, 4, 2, 2, 2, 2, 4, 16, 16, 8, 8, 8, 8, 8, 8)))
        want[32] = hashes = [h64(r["id"].encode()) for r in self.rows]
        want[33] = sorted(range(len(hashes)), key=lambda row: (hashes[row], row))
        for i, key in enumerate(("record", "start_sample", "samples", "flags")):
            want[34 + i] = [r[key] for r in self.rows]
        names = [{} for _ in NAMES]
        for i, key in enumerate(NAMES):
            want[38 + i] = [number(names[i], r[key]) for r in self.rows]
        want[43] = [len(r["text"].encode()) for r in self.rows]
        want[64], want[65] = ([block[i] for block in self.metadata_blocks] for i in (0, 1))
        want[96] = block_offsets
        for ident, values in want.items():
            must(self.column(ident, widths.get(ident, 4)) == values, self.path, "section", ident)
        for i in range(5):
            must(self.strings(80 + 2 * i) == list(names[i]), self.path, NAMES[i], "names")


class Dataset:
    """Sections 1, 4 and 5."""

    def __init__(self, path):
        self.path = path
        m = self.manifest = Container(os.path.join(path, "manifest.spsh"), MANIFEST)
        self.check_id(m, struct.pack("<Q", m.ordinal) + b"manifest")
        keys = list(zip(m.column(4, 4), m.column(5, 4)))
        must(keys == sorted(set(keys)), "shards do not ascend")
        self.shards = [Shard(os.path.join(path, "shards", "%06d-%03d.spsh" % key)) for key in keys]
        for key, shard, *want in zip(keys, self.shards, m.column(1, 16), m.column(2, 16),
                                     m.column(3, 8)):
            must((shard.ordinal, shard.sub_ordinal) == key and shard.dataset_id == m.dataset_id and
                 [shard.file_id, shard.root_hash, len(shard.data)] == want, shard.path)
        must(m.column(6, 8) == [0, *accumulate(s.utterance_count for s in self.shards)], "begins")
        must(m.column(7, 8) == [0, *accumulate(s.record_count for s in self.shards)], "begins")
        must(m.utterance_count == m.column(6, 8)[-1], "utterance_count")
        generation = m.column(35, 8, 1)[0]
        index = self.index = Container(os.path.join(path, "index-%08d.spsh" % generation), INDEX)
        self.check_id(index, struct.pack("<Q", generation) + b"index")
        want = m.column(32, 16, 1) + m.column(33, 16, 1) + m.column(34, 8, 1)
        must([index.file_id, index.root_hash, len(index.data)] == want, "index")
        self.read_index()
        self.check_groups()
        self.read_overlays()
        json.loads(m.sections[64][1] or b"{}")

    def check_id(self, container, tail):
        must(container.dataset_id == self.manifest.dataset_id, container.path, "dataset_id")
        must(container.file_id == h128(container.dataset_id + tail), container.path, "file_id")

    def home(self, shard, unit_record):
        """The shard of the unit that holds a record, and its number there."""
        for n, other in enumerate(self.shards):
            inside = unit_record - other.first_record
            if other.ordinal == shard.ordinal and 0 <= inside < other.record_count:
                return n, inside
        raise Damage("record %d of unit %d" % (unit_record, shard.ordinal))

    def read_index(self):
        x, total = self.index, self.manifest.utterance_count
        must(x.utterance_count == total, "index: utterance_count")
        width = {34: 4, 35: 4, 37: 4, 40: 4, 41: 2, 42: 2, 43: 4, **{i: 4 for i in range(45, 51)}}
        column = {i: x.column(i, width.get(i, 8), total) for i in range(32, 51)}
        names, first, position = [{} for _ in NAMES], {}, 0
        self.rows, hashes = [], []
        for shard in self.shards:
            for row in shard.rows:
                c = {i: values[position] for i, values in column.items()}
                own_shard, own = self.home(shard, row["record"])
                record = self.shards[c[34]].records[c[35]]
                mine = self.shards[own_shard].records[own]
                must(c[34] <= own_shard and (record["payload"] == mine["payload"] or (
                    record["pcm_hash"] == mine["pcm_hash"] is not None and
                    record["rate"] == mine["rate"])), "payload of", row["id"])
                duplicate = first.setdefault((c[34], c[35], c[38], c[39]), position)
                duplicate = NONE64 if duplicate == position else duplicate
                want = {32: h64(row["id"].encode()), 36: record["offset"], 37: record["bytes"],
                        38: row["start_sample"], 39: row["samples"], 40: record["rate"],
                        41: record["channels"], 42: record["codec"],
                        43: row["flags"] | (2 if duplicate != NONE64 else 0), 44: duplicate,
                        50: len(row["text"].encode())}
                want.update({45 + i: number(names[i], row[name]) for i, name in enumerate(NAMES)})
                must(all(c[i] == value for i, value in want.items()) and
                     c[38] + c[39] <= record["samples"], "index of", row["id"])
                hashes.append(c[32])
                self.rows.append((row, c, record))
                position += 1
        must(column[33] == sorted(range(total), key=lambda p: (hashes[p], p)), "by_id")
        must(len({row["id"] for row, _, _ in self.rows}) == total, "ids are not unique")
        for i, name in enumerate(NAMES):
            must(x.strings(80 + 2 * i) == list(names[i]), "index:", name, "names")

    def check_groups(self):
        m, groups = self.manifest, {}
        for row, c, _ in self.rows:
            count, samples = groups.get((c[45], c[46], c[40]), (0, 0))
            groups[c[45], c[46], c[40]] = (count + 1, samples + row["samples"])
        must(m.strings(80) == self.index.strings(80) and m.strings(82) == self.index.strings(82))
        keys = list(zip(m.column(16, 4), m.column(17, 4), m.column(18, 4)))
        must(keys == sorted(groups), "groups", keys, sorted(groups))
        must(list(zip(m.column(19, 8), m.column(20, 8))) == [groups[k] for k in keys], "group sums")
        records = [r for shard in self.shards for r in shard.records]
        used = {(c[34], c[35]): len(record["payload"]) for _, c, record in self.rows}
        payload = sum(len(r["payload"]) for r in records)
        duplicates = sum(c[44] != NONE64 for _, c, _ in self.rows)
        want = [len(self.rows), len(records), duplicates, payload, payload - sum(used.values()),
                len(self.index.strings(84))]
        must(m.column(24, 8, 8)[:6] == want, "totals", want)

    def read_overlays(self):
        m, self.overlays = self.manifest, []
        for name, *want in zip(m.strings(51), m.column(48, 16), m.column(49, 16), m.column(50, 8)):
            o = Container(os.path.join(self.path, "overlays", name + ".spsh"), OVERLAY)
            content = b"".join(o.sections[i][1] for i in (1, 2, 3, 4, 5))
            head = struct.pack("<QQ", o.ordinal, len(name.encode())) + name.encode()
            self.check_id(o, head + content)
            must([o.file_id, o.root_hash, len(o.data)] == want and o.ordinal in (1, 2), o.path)
            keys = o.column(1, 16)
            must(keys == sorted(set(keys)), o.path, "keys")
            hashes = dict(zip(keys, o.column(5, 8, len(keys))))
            for row, *_ in self.rows:
                key = h128(row["id"].encode())
                must(hashes.get(key, h64(row["id"].encode())) == h64(row["id"].encode()), "id_hash")
            self.overlays.append((o.ordinal, dict(zip(keys, o.strings(2, len(keys))))))

    def utterances(self):
        for row, c, record in self.rows:
            values = {1: None, 2: row["text"] if row["flags"] else None}
            key = h128(row["id"].encode())
            for kind, entries in self.overlays:
                values[kind] = entries.get(key, values[kind])
            yield {**{k: row[k] for k in ("id", *NAMES, "source", "extras")}, "text": values[2],
                   "recording": record["id"], "start_sample": c[38], "samples": c[39],
                   "sample_rate_hz": c[40], "channels": c[41], "codec": c[42],
                   "duplicate_of": None if c[44] == NONE64 else c[44], "skipped": values[1],
                   "payload_bytes": len(record["payload"]),
                   "payload_hash": h128(record["payload"]).hex()}


if __name__ == "__main__":
    try:
        if os.path.isdir(sys.argv[1]):
            for utterance in Dataset(sys.argv[1]).utterances():
                print(json.dumps(utterance, ensure_ascii=False, sort_keys=True))
        else:
            print(Shard(sys.argv[1]).root_hash.hex())
    except Damage as damage:
        print("damage:", damage, file=sys.stderr)
        sys.exit(1)
