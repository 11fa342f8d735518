/* py_hidden_abi.h: the part of Python's stable ABI that its limited API hides before 3.11.
 *
 * One extension serves CPython 3.9 and later, so it is compiled against the limited API of 3.9.
 * That API declares neither Py_buffer nor the slots of the buffer protocol; 3.11 added both. Using
 * them is nevertheless safe:
 *  - The members of Py_buffer have not changed since 3.0, and 3.11 froze them in the stable ABI.
 *    (3.3 removed `smalltable`, which followed all other members.) Only the interpreter allocates
 *    the struct and this module only fills it in, so its size does not matter.
 *  - Slot numbers are part of the ABI and never change. The buffer slots are 1 and 2, and
 *    PyType_FromSpec of 3.9 accepts them (bpo-40724).
 *  - The flags are constants that compiled extensions contain as numbers, so they cannot change.
 * The names are ours, so that they do not collide with the headers of a later Python.
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
