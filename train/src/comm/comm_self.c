/* comm_self.c: a world of one rank, without messages. */
#include "comm.h"
#include "speechshard/inside.h"

static spsh_status self_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                             size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    (void)c, (void)tag, (void)bytes, (void)size_bytes;
    *ret_handle = 0;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "rank %u does not exist: the run has only one process", to);
}

static spsh_status self_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                                size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    return self_send(c, from, tag, bytes, size_bytes, ret_handle, err);
}

static bool self_done(spsh__comm *c, spsh__comm_handle handle)
{
    (void)c, (void)handle;
    return true;
}

static spsh_status self_wait(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                             spsh_error *err)
{
    (void)c, (void)handle, (void)deadline_ms, (void)err;
    return SPSH_OK;
}

static void self_close(spsh__comm *c)
{
    spsh_allocator allocator = c->allocator;
    spsh__free(&allocator, c);
}

static const spsh__comm_ops self_ops = {
    .name = "self",
    .send_fn = self_send,
    .receive_fn = self_receive,
    .done_fn = self_done,
    .wait_fn = self_wait,
    .close_fn = self_close,
};

spsh_status spsh__comm_self_open(const spsh_allocator *allocator, spsh__comm **ret_comm,
                                 spsh_error *err)
{
    spsh__comm *c = spsh__new(allocator, 1, sizeof(*c));
    if (c == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "communication");
    *c = (spsh__comm){.ops = &self_ops, .world_size = 1, .allocator = *allocator};
    *ret_comm = c;
    return SPSH_OK;
}
