/* fuzz_checkpoint.c: a checkpoint with changes, with or without corrected checksums. An accepted
 * file must keep its promises: every element that it lists is readable. */
#include "checkpoint/checkpoint_internal.h"
#include "checkpoint_kit.h"
#include "memory_io.h"
#include "patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { ELEMENTS = 192, SAMPLES = 77 };

static patch_base base;

static void make_base(void)
{
    size_t size = 0;
    uint8_t *data = kit_file(ELEMENTS, SAMPLES, &size);
    patch_base_init(&base, data, size);
}

static volatile uint8_t sink;

static void touch(const void *bytes, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        sink = (uint8_t)(sink + ((const uint8_t *)bytes)[i]);
}

static void read_all(const spsh__checkpoint *c)
{
    for (uint32_t i = 0; i < c->parameter_count; i++) {
        const spsh__parameter *p = &c->parameters[i];
        REQUIRE(strlen(p->name) > 0 && strlen(p->name) < sizeof(p->name));
        touch(c->weights + p->offset, p->count * sizeof(float));
    }
    touch(c->config, strlen(c->config));
    touch(c->vocabulary, strlen(c->vocabulary));
    for (size_t i = 0; i < 2; i++)
        if (c->moments[i] != NULL)
            touch(c->moments[i], c->arena_elements * sizeof(float));
    touch(c->statistics, c->statistics_elements * sizeof(float));
    touch(c->cursor, c->cursor_size);
    touch(c->strategy, c->strategy_size);
    CHECK_I64(spsh__checkpoint_match(c, c->parameters, c->parameter_count, c->arena_elements,
                                     c->statistics_elements, NULL),
              SPSH_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (base.data == NULL)
        make_base();
    memory_io memory = {NULL, 0};
    uint8_t *changed = patch_apply(&base, data, size_bytes, &memory.size_bytes);
    memory.data = changed;
    const spsh_io io = memory_io_table(&memory);
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_status rc =
        spsh__checkpoint_read("x", &io, spsh_allocator_default(), &file, &c, &err);
    if (rc == SPSH_OK)
        read_all(&c);
    else
        REQUIRE(file == NULL && err.message[0] != '\0');
    spsh__checkpoint_close(file);
    free(changed);
    return 0;
}
