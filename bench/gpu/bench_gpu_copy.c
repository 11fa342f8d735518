/* bench_gpu_copy.c PLUGIN [LINK_GB_PER_S]: the rate of the link to a GPU, from pinned memory and
 * from other memory.
 *
 *     bench_gpu_copy build/release/libspeechshard-cuda.so 63.0
 *
 * For each size of a copy: COPIES of them one after the other on one stream, timed by events on the
 * device, the median of ROUNDS rounds after one that does not count. `pinned` is memory that was
 * allocated as pinned, `registered` is existing pages that were pinned later (as the loader does),
 * and `pageable` is neither. `both`: pinned copies up and down at once, on two streams.
 * LINK_GB_PER_S: raw rate of the link in one direction, with all bytes counted (measure.py computes
 * it). `of_link_raw` is to_device relative to that rate. A PCIe packet carries PAYLOAD bytes and
 * FRAME bytes of overhead, so no copy can exceed PAYLOAD / (PAYLOAD + FRAME) of the rate.
 * `of_link_payload` is relative to this limit, and is the figure that counts (docs/BENCHMARKS.md).
 *
 * Prints one JSON object. Without a device: {"measured": false, "reason": ...}, exit status 0.
 */
#include <sys/mman.h>

#include "bench_device.h"

enum { COPIES = 8, ROUNDS = 7 };

/* Bytes of a packet: the payload that most machines allow; and framing, number, header, CRC. */
enum { PAYLOAD = 256, FRAME = 24 };

static const size_t sizes[] = {1U << 20, 4U << 20, 16U << 20, 64U << 20, 256U << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void *stream, *other_stream, *first, *last;
static char *device_bytes;

/* Bytes per second of copies in one direction. */
static double speed_of(char *to, char *from, size_t size_bytes)
{
    double seconds[ROUNDS + 1];
    for (int round = 0; round <= ROUNDS; round++) {
        float ms = 0;
        check_ok(spsh_cuda_event_record(cuda, first, stream, &failure));
        for (int i = 0; i < COPIES; i++)
            check_ok(spsh_cuda_copy(cuda, to, from, size_bytes, stream, &failure));
        check_ok(spsh_cuda_event_record(cuda, last, stream, &failure));
        check_ok(spsh_cuda_event_synchronize(cuda, last, &failure));
        check_ok(spsh_cuda_event_ms(cuda, first, last, &ms, &failure));
        seconds[round] = (double)ms * 1e-3 / COPIES;
    }
    return (double)size_bytes / figure_of(seconds + 1, ROUNDS).median;
}

/* Copies up and down at once: bytes per second of both together, by wall time. */
static double speed_of_both(char *up, char *down, size_t size_bytes)
{
    double seconds[ROUNDS + 1];
    for (int round = 0; round <= ROUNDS; round++) {
        const double start = now_ms();
        for (int i = 0; i < COPIES; i++) {
            check_ok(spsh_cuda_copy(cuda, device_bytes, up, size_bytes, stream, &failure));
            check_ok(spsh_cuda_copy(cuda, down, device_bytes + size_bytes, size_bytes, other_stream,
                                    &failure));
        }
        check_ok(spsh_cuda_synchronize(cuda, stream, &failure));
        check_ok(spsh_cuda_synchronize(cuda, other_stream, &failure));
        seconds[round] = (now_ms() - start) * 1e-3 / COPIES;
    }
    return 2 * (double)size_bytes / figure_of(seconds + 1, ROUNDS).median;
}

static char *pages(size_t size_bytes)
{
    void *memory =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "memory");
    memset(memory, 1, size_bytes);
    return (char *)memory;
}

/* Rate of the link for payload. */
static double payload_of(double link)
{
    return link * PAYLOAD / (PAYLOAD + FRAME);
}

static void print_kind(const char *name, char *memory, double link)
{
    printf("    \"%s\": [", name);
    for (size_t i = 0; i < SIZES; i++) {
        const double up = speed_of(device_bytes, memory, sizes[i]);
        const double down = speed_of(memory, device_bytes, sizes[i]);
        printf("%s\n      {\"mib\": %zu, \"to_device_gb_per_s\": %.2f, \"to_host_gb_per_s\": %.2f, "
               "\"of_link_raw\": %.3f, \"of_link_payload\": %.3f}",
               i == 0 ? "" : ",", sizes[i] >> 20, up * 1e-9, down * 1e-9, link > 0 ? up / link : 0,
               link > 0 ? up / payload_of(link) : 0);
    }
    printf("\n    ],\n");
}

int main(int argc, char **argv)
{
    const size_t most = sizes[SIZES - 1];
    spsh_cuda_device device = SPSH_CUDA_DEVICE_INIT;
    void *pinned = NULL;
    must(argc == 2 || argc == 3, "usage: bench_gpu_copy PLUGIN [LINK_GB_PER_S]");
    const double link = argc == 3 ? strtod(argv[2], NULL) * 1e9 : 0;
    open_device(argv[1], &device);
    check_ok(spsh_cuda_stream_open(cuda, 0, 0, &stream, &failure));
    check_ok(spsh_cuda_stream_open(cuda, 0, 0, &other_stream, &failure));
    check_ok(spsh_cuda_event_open(cuda, 0, 1, &first, &failure));
    check_ok(spsh_cuda_event_open(cuda, 0, 1, &last, &failure));
    device_bytes = device_memory(2 * most);
    check_ok(spsh_cuda_host_alloc(cuda, 2 * most, &pinned, &failure));
    memset(pinned, 1, 2 * most);
    char *registered = pages(most), *pageable = pages(most);
    check_ok(spsh_cuda_host_register(cuda, registered, most, &failure));

    printf("{\n  \"measured\": true, \"device\": \"%s\", \"link_raw_gb_per_s\": %.2f, "
           "\"link_payload_gb_per_s\": %.2f, \"copies\": %d, \"rounds\": %d,\n  \"results\": {\n",
           device.name, link * 1e-9, payload_of(link) * 1e-9, COPIES, ROUNDS);
    print_kind("pinned", (char *)pinned, link);
    print_kind("registered", registered, link);
    print_kind("pageable", pageable, link);
    const double both = speed_of_both((char *)pinned, (char *)pinned + most, most / 2);
    printf("    \"both_gb_per_s\": %.2f\n  }\n}\n", both * 1e-9);

    spsh_cuda_host_unregister(cuda, registered);
    (void)munmap(registered, most);
    (void)munmap(pageable, most);
    spsh_cuda_host_free(cuda, pinned);
    spsh_cuda_free(cuda, device_bytes);
    spsh_cuda_event_close(cuda, first);
    spsh_cuda_event_close(cuda, last);
    spsh_cuda_stream_close(cuda, stream);
    spsh_cuda_stream_close(cuda, other_stream);
    spsh_cuda_close(cuda);
    return 0;
}
