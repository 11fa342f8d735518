/* consumer.c: a minimal program outside the tree that uses the library. */
#include <stdio.h>
#include <string.h>

#include "speechshard/base.h"

int main(void)
{
    if (strcmp(spsh_version(), SPSH_VERSION_STRING) != 0) {
        fprintf(stderr, "headers %s, library %s\n", SPSH_VERSION_STRING, spsh_version());
        return 1;
    }
    printf("%s\n", spsh_status_text(SPSH_E_CORRUPT));
    return 0;
}
