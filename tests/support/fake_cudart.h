/* fake_cudart.h: state of the fake CUDA runtime (fake_cudart.c) that a test can see. */
#ifndef SPSH_FAKE_CUDART_H
#define SPSH_FAKE_CUDART_H

#include "speechshard/base.h"

#define FAKE_CONTEXTS_SYMBOL "fake_contexts"
#define FAKE_DEVICE_SYMBOL   "fake_device"

typedef uint32_t fake_contexts_fn(void);
typedef int fake_device_fn(void);

/* The devices on which this process has contexts, one bit per device. */
SPSH_API fake_contexts_fn fake_contexts;

/* The device of this thread. */
SPSH_API fake_device_fn fake_device;

#endif
