/* row_segment.h: the part of a recording that a row describes. */
#ifndef SPSH_INGEST_ROW_SEGMENT_H
#define SPSH_INGEST_ROW_SEGMENT_H

#include "common/time_text.h"
#include "ingest/scan/scan.h"

/** A time of a row. */
typedef struct spsh__row_time {
    spsh__time_result result;
    uint64_t ns;
} spsh__row_time;

typedef struct spsh__row_segment {
    uint64_t start_ns, end_ns; /* end_ns: SPSH_SEGMENT_END for the end of the file */
    uint64_t expected_ns;      /* length of the file; 0: unknown */
    bool given;                /* the row names a start or an end */
} spsh__row_segment;

/* Return false if the times are not a valid segment. A duration without start and end is the length
 * of the file. It is usually rounded, so the real length is used, and the packer compares the two.
 */
bool spsh__row_segment_take(spsh__row_time start, spsh__row_time end, spsh__row_time duration,
                            spsh__row_segment *ret_segment);

/* Return an id and "#start_ns-end_ns", or only the id if the row names no part of its file. */
spsh_bytes spsh__row_segment_id(spsh__scan *scan, spsh_bytes id, const spsh__row_segment *segment);

#endif
