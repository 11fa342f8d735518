/* call_watch.c: see call_watch.h. Nothing is reported after the caller has canceled. */
#include "call_watch.h"

#include "speechshard/inside.h"

void spsh__call_watch_report(spsh__call_watch *watch, const char *stage, uint64_t done,
                             uint64_t total)
{
    if (watch == NULL || watch->progress_fn == NULL || watch->is_canceled)
        return;
    if (watch->progress_fn(watch->user, stage, done, total) != 0)
        watch->is_canceled = true;
}

spsh_status spsh__call_watch_check(const spsh__call_watch *watch, spsh_error *err)
{
    return watch != NULL && watch->is_canceled ? SPSH_FAIL(err, SPSH_E_CANCELED, "canceled")
                                               : SPSH_OK;
}
