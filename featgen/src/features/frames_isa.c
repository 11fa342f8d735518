/* frames_isa.c: which instruction sets this processor has for frames.h. */
#include "frames.h"

#include <string.h>

enum { ISA_COUNT = 4 };

/* Best first. */
static const spsh__frames_isa *isa_at(size_t number)
{
    switch (number) {
    case 0: return spsh__frames_avx512();
    case 1: return spsh__frames_avx2();
    case 2: return spsh__frames_simd128();
    default: return spsh__frames_scalar();
    }
}

const spsh__frames_isa *spsh__frames_isa_named(const char *name)
{
    for (size_t i = 0; i < ISA_COUNT; i++) {
        const spsh__frames_isa *isa = isa_at(i);
        if (isa != NULL && strcmp(isa->name, name) == 0)
            return isa;
    }
    return NULL;
}

const spsh__frames_isa *spsh__frames_isa_best(void)
{
    for (size_t i = 0; i + 1 < ISA_COUNT; i++) {
        const spsh__frames_isa *isa = isa_at(i);
        if (isa != NULL)
            return isa;
    }
    return spsh__frames_scalar();
}
