/* run_page.h: the page of a training run: curves, evaluations, domains, examples, restarts. */
#ifndef SPSH_TRAIN_RUN_PAGE_H
#define SPSH_TRAIN_RUN_PAGE_H

#include "common/byte_builder.h"
#include "run_cost.h"

/* config: text of the run's config.yaml; NULL: not shown. rates NULL: no prices. */
void spsh__run_page(spsh__builder *out, const char *run, const spsh__run_history *history,
                    const char *config, const spsh__run_rates *rates);

/* Read RUN's files and write the page. path NULL: RUN/report.html. rates NULL: no prices. */
SPSH_NODISCARD spsh_status spsh__run_page_write(const char *run, const char *path,
                                                const spsh__run_rates *rates, const spsh_io *io,
                                                spsh_error *err);

#endif
