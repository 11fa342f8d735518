/* doubles.h: buffers of any backend written and read as doubles, for tests that compare backends.
 * Buffers of the backend `reference` hold doubles. Other backends have floats or float16 values.
 */
#ifndef DOUBLES_H
#define DOUBLES_H

#include "backend/backend.h"

enum { DOUBLES_CHUNK = 1024 };

static inline void put_doubles(spsh__backend *b, spsh__backend_buffer to, const double *values,
                               size_t count)
{
    float floats[DOUBLES_CHUNK];
    if (b->ops->element_bytes == sizeof(*values)) {
        for (size_t i = 0; i < count; i++)
            ((double *)to.data)[i] = values[i];
        return;
    }
    for (size_t at = 0; at < count; at += DOUBLES_CHUNK) {
        const size_t some = count - at < DOUBLES_CHUNK ? count - at : (size_t)DOUBLES_CHUNK;
        for (size_t i = 0; i < some; i++)
            floats[i] = (float)values[at + i];
        b->ops->write_f32_fn(b, spsh__at(b->ops, to, at), floats, some);
    }
}

static inline void take_doubles(spsh__backend *b, double *values, spsh__backend_buffer from,
                                size_t count)
{
    float floats[DOUBLES_CHUNK];
    if (b->ops->element_bytes == sizeof(*values)) {
        for (size_t i = 0; i < count; i++)
            values[i] = ((const double *)from.data)[i];
        return;
    }
    for (size_t at = 0; at < count; at += DOUBLES_CHUNK) {
        const size_t some = count - at < DOUBLES_CHUNK ? count - at : (size_t)DOUBLES_CHUNK;
        b->ops->read_f32_fn(b, floats, spsh__at(b->ops, from, at), some);
        for (size_t i = 0; i < some; i++)
            values[at + i] = (double)floats[i];
    }
}

#endif
