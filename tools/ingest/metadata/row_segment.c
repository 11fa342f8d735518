/* row_segment.c: see row_segment.h. */
#include "row_segment.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/file_names.h"
#include "ingest/scan/scan_strings.h"

bool spsh__row_segment_take(spsh__row_time start, spsh__row_time end, spsh__row_time duration,
                            spsh__row_segment *ret_segment)
{
    spsh__row_segment s = {.end_ns = SPSH_SEGMENT_END};
    s.given = start.result == SPSH__TIME_OK || end.result == SPSH__TIME_OK;
    if (s.given && start.result == SPSH__TIME_OK)
        s.start_ns = start.ns;
    if (end.result == SPSH__TIME_OK)
        s.end_ns = end.ns;
    else if (s.given && duration.result == SPSH__TIME_OK)
        s.end_ns = s.start_ns + duration.ns;
    else if (duration.result == SPSH__TIME_OK)
        s.expected_ns = duration.ns;
    *ret_segment = s;
    const bool needs_duration = s.given && end.result != SPSH__TIME_OK;
    return start.result != SPSH__TIME_BAD && end.result != SPSH__TIME_BAD &&
           !(needs_duration && duration.result == SPSH__TIME_BAD) && s.end_ns > s.start_ns;
}

spsh_bytes spsh__row_segment_id(spsh__scan *scan, spsh_bytes id, const spsh__row_segment *segment)
{
    char text[64];
    if (!segment->given)
        return id;
    if (segment->end_ns == SPSH_SEGMENT_END)
        (void)snprintf(text, sizeof(text), "#%" PRIu64 "-end", segment->start_ns);
    else
        (void)snprintf(text, sizeof(text), "#%" PRIu64 "-%" PRIu64, segment->start_ns,
                       segment->end_ns);
    return SPSH__JOIN(scan, id, spsh__bytes_of(text));
}
