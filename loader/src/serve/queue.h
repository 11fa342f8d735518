/* queue.h: a FIFO queue of jobs from the fetch thread to the decode threads.
 *
 * The links are in the jobs, so the queue needs no memory and cannot be full. The number of slots
 * limits its length.
 */
#ifndef SPSH_QUEUE_H
#define SPSH_QUEUE_H

#include "batch/slot.h"

typedef struct spsh__queue {
    pthread_mutex_t lock;
    pthread_cond_t work, calm;
    spsh__job *first, *last;
    uint32_t waiting; /* threads in take */
    uint32_t busy;    /* jobs taken, and not yet done */
    bool paused, closed;
} spsh__queue;

spsh_status spsh__queue_open(spsh__queue *queue, spsh_error *err);
void spsh__queue_free(spsh__queue *queue); /* call when no thread uses it */

/* Append the jobs first ... last, which are linked by next. */
void spsh__queue_put(spsh__queue *queue, spsh__job *first, spsh__job *last);
/* Wait for a job. NULL: the queue is closed. done: the thread's previous job is done. */
spsh__job *spsh__queue_take(spsh__queue *queue, bool done);

/* Drop the queued jobs, and wait until all jobs that were taken are done. */
void spsh__queue_pause(spsh__queue *queue);
void spsh__queue_resume(spsh__queue *queue);
void spsh__queue_close(spsh__queue *queue);

#endif
