/* augment_isa.c: which instruction sets this processor has for augment_kernels.h. */
#include <string.h>

#include "augment_kernels.h"

const spsh__augment_isa *spsh__augment_isa_best(void)
{
    if (spsh__augment_avx2() != NULL)
        return spsh__augment_avx2();
    return spsh__augment_simd128() != NULL ? spsh__augment_simd128() : spsh__augment_scalar();
}

const spsh__augment_isa *spsh__augment_isa_named(const char *name)
{
    const spsh__augment_isa *const all[] = {spsh__augment_avx2(), spsh__augment_simd128(),
                                            spsh__augment_scalar()};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i] != NULL && strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
