/* fuzz_alignments.c: a file of alignments, plain or compressed. An accepted file has each utterance
 * once, with its stated number of states per frame. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "labels/alignments.h"

enum { FRAMES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_states(const spsh__alignments *a, uint32_t number)
{
    static uint32_t states[FRAMES];
    for (uint32_t frames = 0; frames < 64; frames++) {
        const uint32_t served = frames * 11 / 10;
        if (!spsh__alignments_states(a, number, frames, served, states))
            continue;
        for (uint32_t i = 0; i < served; i++)
            must(states[i] <= spsh__alignments_greatest(a));
    }
}

static void check(const spsh__alignments *a)
{
    const uint32_t count = spsh__alignments_count(a);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = UINT32_MAX;
        must(spsh__alignments_find(a, spsh__alignments_id(a, i), &number) && number == i);
        check_states(a, i);
    }
    must(spsh__alignments_greatest(a) < SPSH__ALIGNMENT_STATES_MAX);
    must(spsh__alignments_bytes(a) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    spsh__alignments *a = NULL;
    const int fd = memfd_create("alignments", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const spsh_status rc = spsh__alignments_read((const char *const[]){path, NULL}, &a, NULL);
    must((rc == SPSH_OK) == (a != NULL));
    if (a != NULL)
        check(a);
    spsh__alignments_free(a);
    must(close(fd) == 0);
    return 0;
}
