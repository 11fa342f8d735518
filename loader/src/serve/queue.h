/* queue.h: jobs from the thread that reads to those that decode: a list, first in, first out.
 *
 * The list runs through the jobs themselves, so that it needs no memory and cannot be full; what
 * bounds it are the slots that the jobs belong to.
 */
#ifndef SPSH_QUEUE_H
#define SPSH_QUEUE_H

#include "batch/slot.h"

typedef struct spsh__queue {
    pthread_mutex_t lock;
    pthread_cond_t work, calm;
    spsh__job *first, *last;
    uint32_t waiting; /* threads in take */
    uint32_t busy;    /* jobs taken and not done */
    bool paused, closed;
} spsh__queue;

spsh_status spsh__queue_open(spsh__queue *queue, spsh_error *err);
void spsh__queue_free(spsh__queue *queue); /* no thread uses it */

/* first ... last, linked by next. */
void spsh__queue_put(spsh__queue *queue, spsh__job *first, spsh__job *last);
/* Waits; NULL once the queue is closed. done: the one that was taken before is done with. */
spsh__job *spsh__queue_take(spsh__queue *queue, bool done);

/* Drop what waits, and wait until nothing that was taken is still being worked on. */
void spsh__queue_pause(spsh__queue *queue);
void spsh__queue_resume(spsh__queue *queue);
void spsh__queue_close(spsh__queue *queue);

#endif
