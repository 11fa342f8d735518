"""make_parquet.py CLIP DIRECTORY [MEGABYTES [ROWS]]: make one parquet file like those of The
People's Speech, of copies of a FLAC file that differ in the name of their encoder, and the same
clips as a tar, for bench/parquet.sh."""

import io
import sys
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

clip = Path(sys.argv[1]).read_bytes()
at = clip.index(b"reference libFLAC")
folder = Path(sys.argv[2])
count = (int(sys.argv[3]) if len(sys.argv) > 3 else 1000) * 1_000_000 // len(clip)
rows_of_a_group = int(sys.argv[4]) if len(sys.argv) > 4 else 100
schema = pa.schema(
    [
        ("id", pa.string()),
        ("audio", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        ("duration_ms", pa.int32()),
        ("text", pa.string()),
    ]
)
(folder / "clean").mkdir(parents=True)
path = folder / "clean" / "train-00000-of-00001.parquet"
with pq.ParquetWriter(path, schema) as writer, tarfile.open(folder / "clips.tar", "w") as tar:
    for first in range(0, count, rows_of_a_group):
        rows = []
        for number in range(first, min(count, first + rows_of_a_group)):
            name = f"talk_SLASH_{number:08d}.flac"
            data = clip[:at] + b"%017d" % number + clip[at + 17 :]
            rows.append(
                {"id": name, "audio": {"bytes": data, "path": name}, "duration_ms": 6000, "text": f"{number} " * 20}
            )
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        writer.write_table(pa.Table.from_pylist(rows, schema))
