/* svg_marks.c: see svg_marks.h. */
#include "svg_marks.h"

#include <math.h>

#include "file_names.h"

/* clang-format off */
/* A viewer without CSS variables uses the plain color before each var(). */
static const char *const file_style[] = {
    "svg{--bg:#fff;--ink:#1c2733;--soft:#5b6875;--line:#dfe4ea;\n",
    "--c0:#2f6fb4;--c1:#e08a2e;--c2:#3c9a6b;--c3:#8a63b8;--c4:#cc4f55;background:var(--bg)}\n",
    "@media (prefers-color-scheme:dark){svg{--bg:#1a2129;--ink:#e4e9ee;--soft:#98a5b3;\n",
    "--line:#2f3944;--c0:#5b9bdc;--c1:#eea352;--c2:#5fbd8d;--c3:#ad8bd8;--c4:#e57b80}}\n",
    "text{font:11px system-ui,sans-serif;fill:#5b6875;fill:var(--soft)}\n",
    ".axis{stroke:#5b6875;stroke:var(--soft)}.grid{stroke:#dfe4ea;stroke:var(--line)}\n",
    ".c0{fill:#2f6fb4;fill:var(--c0)}.c2{fill:#3c9a6b;fill:var(--c2)}\n",
    ".c3{fill:#8a63b8;fill:var(--c3)}.c4{fill:#cc4f55;fill:var(--c4)}\n",
    NULL,
};
/* clang-format on */

void spsh__svg_file_open(spsh__builder *out, const char *css, int width, int height,
                         spsh_bytes title, const char *const *more_style)
{
    spsh__html_format(out,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"%s\" viewBox=\"0 0 %d "
                      "%d\" role=\"img\"><title>",
                      css, width, height);
    spsh__html_text(out, title);
    spsh__builder_append_text(out, "</title><style>\n");
    for (size_t i = 0; file_style[i] != NULL; i++)
        spsh__builder_append_text(out, file_style[i]);
    for (size_t i = 0; more_style[i] != NULL; i++)
        spsh__builder_append_text(out, more_style[i]);
    spsh__builder_append_text(out, "</style>\n");
}

void spsh__svg_file_close(spsh__builder *out)
{
    spsh__builder_append_text(out, "</svg>\n");
}

void spsh__svg_text_open(spsh__builder *out, int x, int y, const char *anchor, const char *css)
{
    spsh__builder_append_text(out, "<text");
    if (css != NULL)
        spsh__html_format(out, " class=\"%s\"", css);
    spsh__html_format(out, " x=\"%d\" y=\"%d\" text-anchor=\"%s\">", x, y, anchor);
}

void spsh__svg_text_close(spsh__builder *out)
{
    spsh__builder_append_text(out, "</text>");
}

void spsh__svg_label(spsh__builder *out, int x, int y, const char *anchor, const char *text)
{
    spsh__svg_text_open(out, x, y, anchor, NULL);
    spsh__html_text(out, spsh__bytes_of(text));
    spsh__svg_text_close(out);
}

void spsh__svg_line(spsh__builder *out, const char *css, int x1, int y1, int x2, int y2)
{
    spsh__html_format(out, "<line class=\"%s\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>", css, x1,
                      y1, x2, y2);
}

void spsh__svg_rect(spsh__builder *out, const char *css, int x, int y, int width, int height)
{
    spsh__html_format(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>", css,
                      x, y, width < 1 ? 1 : width, height);
}

/* Upper edge to the right, lower edge back. */
void spsh__svg_envelope(spsh__builder *out, const char *css, const spsh__svg_lane *lane)
{
    const double scale = lane->peak > 0 ? lane->height / 2.0 / (double)lane->peak : 0;
    const int middle = lane->top + lane->height / 2;
    int first = 0;
    int end = lane->columns;
    while (first < end && lane->high[first] < lane->low[first])
        first++;
    while (end > first && lane->high[end - 1] < lane->low[end - 1])
        end--;
    if (first == end)
        return;
    spsh__html_format(out, "<path class=\"%s\" d=\"M%d,%d", css, lane->left + lane->step * first,
                      middle);
    for (int i = first; i < end; i++)
        spsh__html_format(out, " %d,%d", lane->left + lane->step * i,
                          middle - (int)lround((double)lane->high[i] * scale));
    for (int i = end; i-- > first;)
        spsh__html_format(out, " %d,%d", lane->left + lane->step * i,
                          middle + 1 - (int)lround((double)lane->low[i] * scale));
    spsh__builder_append_text(out, "Z\"/>");
}
