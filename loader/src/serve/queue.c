/* queue.c: a mutex and a list. A batch has tens of utterances, and decoding one takes about a
 * millisecond, so the lock is not a bottleneck. */
#include "queue.h"

spsh_status spsh__queue_open(spsh__queue *queue, spsh_error *err)
{
    *queue = (spsh__queue){.busy = 0};
    if (pthread_mutex_init(&queue->lock, NULL) != 0)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: mutex");
    (void)pthread_cond_init(&queue->work, NULL);
    (void)pthread_cond_init(&queue->calm, NULL);
    return SPSH_OK;
}

void spsh__queue_free(spsh__queue *queue)
{
    (void)pthread_cond_destroy(&queue->calm);
    (void)pthread_cond_destroy(&queue->work);
    (void)pthread_mutex_destroy(&queue->lock);
}

void spsh__queue_put(spsh__queue *queue, spsh__job *first, spsh__job *last)
{
    last->next = NULL;
    (void)pthread_mutex_lock(&queue->lock);
    if (queue->last == NULL)
        queue->first = first;
    else
        queue->last->next = first;
    queue->last = last;
    if (queue->waiting > 1 && first != last)
        (void)pthread_cond_broadcast(&queue->work);
    else if (queue->waiting > 0)
        (void)pthread_cond_signal(&queue->work);
    (void)pthread_mutex_unlock(&queue->lock);
}

spsh__job *spsh__queue_take(spsh__queue *queue, bool done)
{
    spsh__job *job = NULL;
    (void)pthread_mutex_lock(&queue->lock);
    if (done && --queue->busy == 0 && queue->paused)
        (void)pthread_cond_broadcast(&queue->calm);
    queue->waiting++;
    while (!queue->closed && (queue->paused || queue->first == NULL))
        (void)pthread_cond_wait(&queue->work, &queue->lock);
    queue->waiting--;
    if (!queue->closed) {
        job = queue->first;
        queue->first = job->next;
        if (queue->first == NULL)
            queue->last = NULL;
        queue->busy++;
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return job;
}

void spsh__queue_pause(spsh__queue *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    queue->paused = true;
    while (queue->busy > 0)
        (void)pthread_cond_wait(&queue->calm, &queue->lock);
    queue->first = NULL;
    queue->last = NULL;
    (void)pthread_mutex_unlock(&queue->lock);
}

void spsh__queue_resume(spsh__queue *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    queue->paused = false;
    (void)pthread_cond_broadcast(&queue->work);
    (void)pthread_mutex_unlock(&queue->lock);
}

void spsh__queue_close(spsh__queue *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    (void)pthread_cond_broadcast(&queue->work);
    (void)pthread_mutex_unlock(&queue->lock);
}
