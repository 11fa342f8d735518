/* fake_cudart.h: state of the fake CUDA runtime (fake_cudart.c) that a test can see. */
#ifndef SPSH_FAKE_CUDART_H
#define SPSH_FAKE_CUDART_H

#include "speechshard/base.h"

#define FAKE_CONTEXTS_SYMBOL "fake_contexts"

typedef uint32_t fake_contexts_fn(void);

/* The devices on which this process has contexts, one bit per device. */
SPSH_API fake_contexts_fn fake_contexts;

#endif
