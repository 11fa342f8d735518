/* bench_device.h: start of the GPU benchmarks: the plug-in, and its first device. Without a device:
 * {"measured": false, "reason": ...}, exit status 0. */
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include "bench_kit.h"
#include "speechshard/cuda.h"

static spsh_cuda *cuda;

/* Print a JSON string: quoted, with special characters escaped. */
static inline void print_json_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            putchar('\\');
        if (c < ' ')
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

/* Open the plug-in at `path`, and describe its first device. Exit with status 0 if it cannot be
 * opened. */
static inline void open_device(const char *path, spsh_cuda_device *device)
{
    if (spsh_cuda_open(path, &cuda, &failure) != SPSH_OK) {
        printf("{\"measured\": false, \"reason\": ");
        print_json_text(failure.message);
        printf("}\n");
        fprintf(stderr, "not measured: %s\n", failure.message);
        exit(0);
    }
    check_ok(spsh_cuda_device_get(cuda, 0, device, &failure));
}

/* Never returns NULL. Free the memory with spsh_cuda_free. */
static inline void *device_memory(size_t size_bytes)
{
    void *memory = NULL;
    check_ok(spsh_cuda_alloc(cuda, 0, size_bytes, &memory, &failure));
    return memory;
}

#endif
