/* parts.c: see parts.h. */
#include "parts.h"

#include "speechshard/inside.h"

#define PART_ELEMENTS (SPSH__PART_BYTES / sizeof(float))

spsh_status spsh__parts_open(spsh__backend *backend, spsh__backend_buffer arena, uint64_t elements,
                             uint32_t count_min, spsh__parts *ret, spsh_error *err)
{
    const uint64_t each = (elements + count_min - 1) / count_min;
    const uint64_t part = each > 0 && each < PART_ELEMENTS ? each : PART_ELEMENTS;
    *ret = (spsh__parts){.backend = backend,
                         .arena = arena,
                         .elements = elements,
                         .part_elements = part,
                         .count = (uint32_t)((elements + part - 1) / part),
                         .allocator = backend->allocator};
    const spsh_status rc = backend->ops->alloc_fn(backend, part, &ret->scratch, err);
    if (rc != SPSH_OK)
        return rc;
    ret->host = spsh__new(&backend->allocator, part, sizeof(float));
    return ret->host != NULL ? SPSH_OK : SPSH_FAIL(err, SPSH_E_NO_MEMORY, "part of the weights");
}

void spsh__parts_close(spsh__parts *p)
{
    if (p->scratch.data != NULL)
        p->backend->ops->free_fn(p->backend, p->scratch);
    if (p->host != NULL)
        spsh__free(&p->allocator, p->host);
}

static spsh__backend_buffer at(const spsh__parts *p, uint32_t part)
{
    return spsh__at(p->backend->ops, p->arena, spsh__parts_offset(p, part));
}

void spsh__parts_take(spsh__parts *p, uint32_t part, float *to)
{
    p->backend->ops->read_f32_fn(p->backend, to, at(p, part), spsh__parts_elements(p, part));
}

void spsh__parts_put(spsh__parts *p, uint32_t part, const float *from)
{
    p->backend->ops->write_f32_fn(p->backend, at(p, part), from, spsh__parts_elements(p, part));
}

void spsh__parts_keep(spsh__parts *p, uint32_t part, spsh__backend_buffer to)
{
    p->backend->ops->copy_fn(p->backend, to, at(p, part), spsh__parts_elements(p, part));
}

void spsh__parts_mix(spsh__parts *p, uint32_t part, double weight, const float *theirs,
                     spsh__backend_buffer mine)
{
    const uint64_t count = spsh__parts_elements(p, part);
    const spsh__backend_buffer y = at(p, part);
    p->backend->ops->write_f32_fn(p->backend, p->scratch, theirs, count);
    p->backend->ops->mix_fn(p->backend, weight, p->scratch, mine.data == NULL ? y : mine, y, count);
}

void spsh__parts_save(spsh__parts *p, float *aside, bool *is_aside)
{
    for (uint32_t part = 0; !*is_aside && part < p->count; part++)
        spsh__parts_take(p, part, aside + spsh__parts_offset(p, part));
    *is_aside = true;
}

void spsh__parts_restore(spsh__parts *p, const float *aside, bool *is_aside)
{
    for (uint32_t part = 0; *is_aside && part < p->count; part++)
        spsh__parts_put(p, part, aside + spsh__parts_offset(p, part));
    *is_aside = false;
}
