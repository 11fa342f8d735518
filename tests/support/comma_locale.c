/* comma_locale.c: run a test as a host program that has called setlocale(LC_ALL, "") does.
 *
 * CTest sets LC_ALL to a locale with a decimal comma, if one could be compiled. Numbers in files,
 * options, and JSON have a point there, too.
 */
#include <locale.h>

__attribute__((constructor)) static void set_locale(void)
{
    (void)setlocale(LC_ALL, "");
}
