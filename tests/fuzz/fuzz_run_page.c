/* fuzz_run_page.c: metrics.jsonl of a run with arbitrary bytes. It is read and drawn as a page. The
 * page must be a complete UTF-8 document in which no text of the file became a script. */
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "memory_io.h"
#include "runs/run_page.h"
#include "speechshard/inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static bool has(const spsh__builder *page, const char *text)
{
    return memmem(page->data, page->size_bytes, text, strlen(text)) != NULL;
}

static void check_history(const spsh__run_history *h)
{
    must(h->set_count <= SPSH__RUN_SETS_MAX && h->domain_count <= SPSH__RUN_DOMAINS_MAX);
    must(h->evaluation_count <= h->evaluation_capacity);
    for (size_t i = 0; i < h->evaluation_count; i++)
        must(h->evaluations[i].set < h->set_count);
    must((h->damaged_lines == 0) == (h->first_damaged_line == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memory_io file = {data, size};
    const spsh_io io = memory_io_table(&file);
    spsh__run_history *history = NULL;
    spsh__builder page = {0};
    const spsh_status rc = spsh__run_history_read("run", &io, &history, NULL);
    must((rc == SPSH_OK) == (history != NULL));
    if (rc != SPSH_OK)
        return 0;
    check_history(history);
    const spsh__run_rates rates = {2, 1, 8};
    spsh__run_page(&page, "run", history, NULL, &rates);
    must(!page.failed && has(&page, "</html>"));
    must(spsh__utf8_valid((spsh_bytes){page.data, page.size_bytes}));
    const char *script = strstr(spsh__builder_text(&page), "<script"); /* the page's own */
    must(script != NULL && strstr(script + 1, "<script") == NULL);
    spsh__builder_free(&page);
    spsh__run_history_free(history);
    return 0;
}
