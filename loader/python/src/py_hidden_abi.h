/* py_hidden_abi.h: the part of Python's stable ABI that its limited API hides before 3.11.
 *
 * One extension serves CPython 3.9 and later, so it is compiled against the limited API of 3.9.
 * That API declares neither Py_buffer nor the slots of the buffer protocol; both came in with 3.11.
 * Using them all the same is sound:
 *  - The struct has had the same members since 3.0 (`smalltable`, the one that went, was behind all
 *    of them and went in 3.3), and 3.11 froze it as part of the stable ABI. It is only ever
 *    allocated by the interpreter and filled in here, so its size does not matter.
 *  - Slot numbers are part of the ABI and never change; 1 and 2 are these, and PyType_FromSpec
 * of 3.9 takes them (bpo-40724).
 *  - The flags are numbers that compiled extensions have baked in.
 * Names are our own, so that nothing collides when headers of a later Python are used.
 */
#ifndef SPSH_PY_HIDDEN_ABI_H
#define SPSH_PY_HIDDEN_ABI_H

#include "py_binding.h"

typedef struct spsh__py_buffer {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} spsh__py_buffer;

enum {
    SPSH_PY_SLOT_GETBUFFER = 1,

    SPSH_PY_BUF_FORMAT = 0x04,
    SPSH_PY_BUF_ND = 0x08,
    SPSH_PY_BUF_STRIDES = 0x10 | SPSH_PY_BUF_ND,
    SPSH_PY_BUF_C = 0x20 | SPSH_PY_BUF_STRIDES,
    SPSH_PY_BUF_FORTRAN = 0x40 | SPSH_PY_BUF_STRIDES,
    SPSH_PY_BUF_ANY = 0x80 | SPSH_PY_BUF_STRIDES,
};

#endif
