#!/usr/bin/env python3
"""A second reader of checkpoints, written only from FORMAT.md 10: spsh_checkpoint.py FILE

It checks every rule and prints the contents of the file, like `unit_train_checkpoint dump FILE`.
"""
import struct
import sys

from spsh_reader import CHECKPOINT, Container, Damage, h64, h128, must, u, zero

ENTRY = 112


def product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


class Checkpoint(Container):
    def __init__(self, path):
        super().__init__(path, CHECKPOINT)
        must(zero(self.dataset_id) and self.utterance_count == 0, path, "dataset_id, utterance_count")
        must(self.column(1, 4, 1) == [1], path, "version")
        self.raw = {i: self.bytes(i, width) for i, width in
                    {2: 1, 3: 1, 8: 16, 32: 4, 33: 4, 34: 4, 35: 4, 48: 1, 49: 1}.items()}
        self.counters = self.column(4, 8, 13)
        samples, generation, weights_hash = self.counters[0], self.counters[3], self.counters[9]
        must((samples, generation) == (self.ordinal, self.sub_ordinal), path, "header")
        must(max(self.counters[6:8]) < 2**32, path, "world size")
        for text in (self.raw[2], self.raw[3]):
            must(b"\0" not in text, path, "a text has a zero byte")
            text.decode("utf-8")
        must(weights_hash == h64(self.raw[32]) and self.raw[32], path, "weights")
        must(all(len(self.raw[i]) in (0, len(self.raw[32])) for i in (33, 34)), path, "moments")
        identity = struct.pack("<QQQ", generation, samples, weights_hash)
        must(self.file_id == h128(identity + self.raw[2] + self.raw[3] + b"checkpoint"), path, "file_id")
        self.read_parameters()

    def bytes(self, ident, width):
        have, raw = self.sections.get(ident, (0, b""))
        must(have == width, self.path, "section", ident)
        return raw

    def read_parameters(self):
        raw, end = self.raw[8], 0
        must(len(raw) % ENTRY == 0 and len(raw) // ENTRY <= 65536, self.path, "parameters")
        self.parameters = []
        for at in range(0, len(raw), ENTRY):
            name = raw[at:at + 64].rstrip(b"\0")
            offset, count, *shape, rank, flags, reserved = u("QQIIIIIIQ", raw, at + 64)
            must(1 <= len(name) <= 63 and b"\0" not in name and flags <= 1 and reserved == 0, self.path, name)
            must(1 <= rank <= 4 and product(shape[:rank]) == count > 0 and not any(shape[rank:]), self.path, name)
            must(end <= offset and offset + count <= len(self.raw[32]) // 4, self.path, name)
            end = offset + count
            self.parameters.append((name.decode("utf-8"), offset, count, flags, *shape[:rank]))

    def dump(self):
        for counter in self.counters:
            print("%016x" % counter)
        for ident, name in ((2, "config"), (3, "vocabulary")):
            self.dump_bytes(ident, name)
        for parameter in self.parameters:
            print("parameter", *parameter)
        for ident, name in ((32, "weights"), (33, "moments"), (34, "moments"), (35, "statistics"),
                            (48, "cursor"), (49, "strategy")):
            self.dump_bytes(ident, name)

    def dump_bytes(self, ident, name):
        print(name, len(self.raw[ident]), "%016x" % h64(self.raw[ident]))


try:
    Checkpoint(sys.argv[1]).dump()
except (Damage, UnicodeDecodeError) as error:
    sys.exit(str(error))
