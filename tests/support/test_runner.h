/* test_runner.h: a program of many tests. CMake writes its table (speechshard_add_test_program). */
#ifndef SPSH_TEST_RUNNER_H
#define SPSH_TEST_RUNNER_H

#include <stddef.h>

typedef struct test_entry {
    const char *name;
    int (*function)(int argc, char **argv); /* TEST_MAIN */
} test_entry;

/* Ends with a NULL name. */
extern const test_entry test_entries[];

#define TEST_DECLARE(name_) int name_(int argc, char **argv);
#define TEST_ENTRY(name_)   {#name_, name_},

#define TEST_LAST                                                                                  \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

/* TESTS_ is a macro that calls its argument with each name. */
#define TEST_TABLE(TESTS_)                                                                         \
    TESTS_(TEST_DECLARE)                                                                           \
    const test_entry test_entries[] = {TESTS_(TEST_ENTRY) TEST_LAST};

#endif
