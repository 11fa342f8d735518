/* page.c: see page.h. */
#include "page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "file_names.h"
#include "human.h"

#define ROWS_SHOWN  30U   /* visible rows of a long table */
#define TEXT_BYTES  1024  /* bytes of a label or a warning */
#define ROWS_FOLDED 2000U /* rows that a click unfolds; further rows are only counted */

/* One string per line, because C guarantees only 4095 characters per string literal. */
/* clang-format off */
static const char *const style[] = {
    ":root{color-scheme:light dark;\n",
    "--bg:#f6f7f9;--card:#fff;--ink:#1c2733;--soft:#5b6875;--line:#dfe4ea;\n",
    "--warn:#fff6e0;--warn-line:#e3b341;--caution:#8a6100;--shade:rgba(28,39,51,.28);\n",
    "--c0:#2f6fb4;--c1:#e08a2e;--c2:#3c9a6b;--c3:#8a63b8;\n",
    "--c4:#cc4f55;--c5:#2f9bb0;--c6:#a8882f;--c7:#97a2ae}\n",
    "@media (prefers-color-scheme:dark){:root{\n",
    "--bg:#12171d;--card:#1a2129;--ink:#e4e9ee;--soft:#98a5b3;--line:#2f3944;\n",
    "--warn:#2e2712;--warn-line:#a8842a;--caution:#e3b341;--shade:rgba(0,0,0,.6);\n",
    "--c0:#5b9bdc;--c1:#eea352;--c2:#5fbd8d;--c3:#ad8bd8;\n",
    "--c4:#e57b80;--c5:#56bdd1;--c6:#cbaf5a;--c7:#75818d}}\n",
    "*{box-sizing:border-box}\n",
    "body,svg text{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",\n",
    "\"DejaVu Sans\",sans-serif}\n",
    "body{margin:0;background:var(--bg);color:var(--ink);font-size:14px;line-height:1.45}\n",
    "main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}\n",
    "h1{font-size:24px;margin:0}\n",
    "h2{font-size:17px;margin:0 0 12px}\n",
    "p{margin:6px 0}\n",
    ".soft{color:var(--soft)}\n",
    ".made{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 14px;\n",
    "margin:10px 0 0;font-size:13px;overflow-wrap:anywhere}\n",
    ".made dt{color:var(--soft)}.made dd{margin:0}\n",
    "section,.tile{background:var(--card);border:1px solid var(--line);border-radius:8px}\n",
    "section{padding:18px 20px;margin-top:16px}\n",
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;\n",
    "margin-top:18px}\n",
    ".tile{padding:12px 14px}\n",
    ".tile b{display:block;font-size:21px;font-weight:600;white-space:nowrap}\n",
    ".tile span{color:var(--soft);font-size:12.5px}\n",
    ".warnings{background:var(--warn);border-color:var(--warn-line)}\n",
    ".warnings ul{margin:0;padding-left:20px}\n",
    /* Shades at the edges show that there is more to scroll to. */
    ".wide{overflow-x:auto;background:\n",
    "linear-gradient(90deg,var(--card) 24px,transparent) left/48px 100% no-repeat local,\n",
    "linear-gradient(270deg,var(--card) 24px,transparent) right/48px 100% no-repeat local,\n",
    "linear-gradient(90deg,var(--shade),transparent) left/14px 100% no-repeat scroll,\n",
    "linear-gradient(270deg,var(--shade),transparent) right/14px 100% no-repeat scroll}\n",
    "table{border-collapse:collapse;width:100%}\n",
    "th{font-weight:600;color:var(--soft);font-size:12.5px;text-align:left;white-space:nowrap}\n",
    "td,th{padding:4px 14px 4px 0;vertical-align:top;border-bottom:1px solid var(--line)}\n",
    "tr:last-child td{border-bottom:0}\n",
    "td:last-child,th:last-child{padding-right:0}\n",
    ".n{text-align:right;white-space:nowrap}\n",
    ".n,.tile b{font-variant-numeric:tabular-nums}\n",
    ".name{min-width:110px;max-width:340px;overflow-wrap:anywhere}\n",
    ".clamp bdi{display:-webkit-box;-webkit-box-orient:vertical;-webkit-line-clamp:3;\n",
    "overflow:hidden;text-align:left}\n",
    ".words{min-width:18em}\n",
    ".bars{width:34%;min-width:140px}\n",
    ".bars.narrow,.words~.bars{width:18%}\n",
    ".total td{font-weight:600;border-top:2px solid var(--line)}\n",
    "svg.bar{display:block;width:100%;height:12px;margin-top:4px;\n",
    "background:var(--line);border-radius:3px}\n",
    "svg.plot{display:block;width:100%;height:auto;max-width:640px}\n",
    "svg text{font-size:11px;fill:var(--soft)}\n",
    "svg .grid{stroke:var(--line)}\n",
    "svg .axis{stroke:var(--soft)}\n",
    "svg .gap{fill:var(--c2);fill-opacity:.13}\n",
    "svg .mark{stroke:var(--c4);stroke-dasharray:3 2}\n",
    ".c0{fill:var(--c0);color:var(--c0)}\n",
    ".c1{fill:var(--c1);color:var(--c1)}\n",
    ".c2{fill:var(--c2);color:var(--c2)}\n",
    ".c3{fill:var(--c3);color:var(--c3)}\n",
    ".c4{fill:var(--c4);color:var(--c4)}\n",
    ".c5{fill:var(--c5);color:var(--c5)}\n",
    ".c6{fill:var(--c6);color:var(--c6)}\n",
    ".c7{fill:var(--c7);color:var(--c7)}\n",
    ".legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:0 0 10px;font-size:13px}\n",
    ".legend i{display:inline-block;width:11px;height:11px;border-radius:2px;\n",
    "background:currentColor;margin-right:6px}\n",
    ".legend bdi{display:inline-block;max-width:260px;overflow:hidden;text-overflow:ellipsis;\n",
    "white-space:nowrap;vertical-align:bottom}\n",
    ".plots{display:grid;gap:20px;\n",
    "grid-template-columns:repeat(auto-fit,minmax(min(320px,100%),1fr))}\n",
    ".plots>*{min-width:0}\n",
    "details{margin-top:10px}\n",
    "summary{cursor:pointer;color:var(--soft)}\n",
    "code,pre{font:12.5px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace}\n",
    "pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}\n",
    ".examples{margin:0;padding:0;list-style:none;font-size:12.5px}\n",
    ".examples li{margin-bottom:3px;overflow-wrap:anywhere}\n",
    "@media (max-width:600px){main{padding:20px 12px 40px}section{padding:14px 12px}}\n",
};

/* The script shows the page's path and date, which are not in its bytes, so that the same input
 * gives the same page. The policy allows only this script, by the base64 SHA-256 of all its lines:
 * after a change here, update the hash. */
static const char *const script[] = {
    "var parts=location.pathname.split('/').map(function(part){\n",
    "try{return decodeURIComponent(part)}catch(e){return part}});\n",
    "document.querySelectorAll('[data-up]').forEach(function(e){\n",
    "var up=parts.slice(0,parts.length-e.dataset.up);\n",
    "e.textContent=e.dataset.last?up.pop():up.join('/')});\n",
    "document.querySelectorAll('[data-written]').forEach(function(e){e.textContent=\n",
    "new Date(document.lastModified).toISOString().slice(0,16).replace('T',' ')+' UTC'});\n",
};
/* clang-format on */

static const char policy[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; "
    "script-src 'sha256-QWpVSIDK1sjdXa8SxEveOCdWiTCZmamSpMSbqFyB4vM='\"/>";

void spsh__page_text(spsh__builder *out, const char *plain)
{
    spsh__html_text(out, spsh__bytes_of(plain));
}

void spsh__page_name(spsh__builder *out, spsh_bytes bytes)
{
    if (bytes.size_bytes == 0) {
        spsh__builder_append_text(out, "<span class=\"soft\">(none)</span>");
        return;
    }
    spsh__builder_append_text(out, "<bdi>");
    spsh__html_text(out, bytes);
    spsh__builder_append_text(out, "</bdi>");
}

void spsh__page_cell_count(spsh__builder *out, uint64_t count)
{
    spsh__html_format(out, "<td class=\"n\">%s</td>", SPSH_SHOW_COUNT(count));
}

void spsh__page_cell_duration(spsh__builder *out, double seconds)
{
    spsh__html_format(out, "<td class=\"n\">%s</td>", SPSH_SHOW_DURATION(seconds));
}

void spsh__page_cell_percent(spsh__builder *out, double part, double whole)
{
    spsh__html_format(out, "<td class=\"n\">%s</td>", SPSH_SHOW_PERCENT(part, whole));
}

void spsh__page_cell_name(spsh__builder *out, spsh_bytes bytes)
{
    spsh__builder_append_text(out, "<td class=\"name clamp\">");
    spsh__page_name(out, bytes);
    spsh__builder_append_text(out, "</td>");
}

void spsh__page_cell_bar(spsh__builder *out, double part, double whole, unsigned color)
{
    const spsh__svg_slice slice = {part, color};
    spsh__builder_append_text(out, "<td class=\"bars\">");
    spsh__svg_bar(out, &slice, 1, whole);
    spsh__builder_append_text(out, "</td>");
}

void spsh__page_section_open(spsh__builder *out, const char *title)
{
    spsh__html_format(out, "<section><h2>%s</h2>\n", title);
}

void spsh__page_section_close(spsh__builder *out)
{
    spsh__builder_append_text(out, "</section>\n");
}

void spsh__page_table_open(spsh__builder *out, const char *head)
{
    spsh__builder_append_text(out, "<div class=\"wide\"><table><thead><tr>");
    for (;;) {
        const size_t length = strcspn(head, "|");
        const bool number = head[0] == '#';
        spsh__builder_append_text(out, number ? "<th class=\"n\">" : "<th>");
        spsh__builder_append(out, head + number, length - number);
        spsh__builder_append_text(out, "</th>");
        if (head[length] == '\0')
            break;
        head += length + 1;
    }
    spsh__builder_append_text(out, "</tr></thead><tbody>\n");
}

void spsh__page_table_close(spsh__builder *out)
{
    spsh__builder_append_text(out, "</tbody></table></div>\n");
}

static void draw_row(spsh__builder *out, const spsh__page_table *table, size_t row)
{
    const bool is_total = table->has_total && row + 1 == table->count;
    spsh__builder_append_text(out, is_total ? "<tr class=\"total\">" : "<tr>");
    table->row_fn(out, table->user, row);
    spsh__builder_append_text(out, "</tr>\n");
}

void spsh__page_rows(spsh__builder *out, const spsh__page_table *table)
{
    /* Show the whole table if only a few rows would be folded. */
    const size_t shown = table->count <= ROWS_SHOWN + ROWS_SHOWN / 4 ? table->count : ROWS_SHOWN;
    const size_t folded = table->count - shown < ROWS_FOLDED ? table->count - shown : ROWS_FOLDED;
    spsh__page_table_open(out, table->head);
    for (size_t i = 0; i < shown; i++)
        draw_row(out, table, i);
    spsh__page_table_close(out);
    if (folded > 0) {
        spsh__html_format(out, "<details><summary>and %s more</summary>\n",
                          SPSH_SHOW_COUNT(table->count - shown));
        spsh__page_table_open(out, table->head);
        for (size_t i = shown; i < shown + folded; i++)
            draw_row(out, table, i);
        spsh__page_table_close(out);
        if (shown + folded < table->count)
            spsh__html_format(out, "<p class=\"soft\">and %s more in %s</p>",
                              SPSH_SHOW_COUNT(table->count - shown - folded), table->rest);
        spsh__builder_append_text(out, "</details>\n");
    }
}

static void SPSH_PRINTF(2, 0) append_text(spsh__builder *out, const char *format, va_list args)
{
    char text[TEXT_BYTES];
    (void)vsnprintf(text, sizeof(text), format, args);
    spsh__page_text(out, text);
}

void spsh__page_tile(spsh__builder *out, const char *value, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    spsh__builder_append_text(out, "<div class=\"tile\"><b>");
    spsh__page_text(out, value);
    spsh__builder_append_text(out, "</b><span>");
    append_text(out, format, args);
    spsh__builder_append_text(out, "</span></div>\n");
    va_end(args);
}

void spsh__page_warn(spsh__builder *out, bool *is_open, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!*is_open)
        spsh__builder_append_text(out, "<section class=\"warnings\"><h2>Worth a look</h2><ul>\n");
    *is_open = true;
    spsh__builder_append_text(out, "<li>");
    append_text(out, format, args);
    spsh__builder_append_text(out, "</li>\n");
    va_end(args);
}

void spsh__page_warn_count(spsh__builder *out, bool *is_open, uint64_t count, const char *text)
{
    if (count > 0)
        spsh__page_warn(out, is_open, "%s %s", SPSH_SHOW_COUNT(count), text);
}

void spsh__page_warnings_close(spsh__builder *out, bool is_open)
{
    if (is_open)
        spsh__builder_append_text(out, "</ul></section>\n");
}

void spsh__page_open(spsh__builder *out, const char *title, const char *const *more_style)
{
    spsh__builder_append_text(
        out, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head>"
             "<meta charset=\"utf-8\"/><meta name=\"viewport\" "
             "content=\"width=device-width, initial-scale=1\"/>");
    spsh__builder_append_text(out, policy);
    spsh__builder_append_text(out, "<title>");
    spsh__page_text(out, title);
    spsh__builder_append_text(out, "</title>\n<style>\n");
    for (size_t i = 0; i < sizeof(style) / sizeof(style[0]); i++)
        spsh__builder_append_text(out, style[i]);
    for (size_t i = 0; more_style != NULL && more_style[i] != NULL; i++)
        spsh__builder_append_text(out, more_style[i]);
    spsh__builder_append_text(out, "</style></head><body><main>\n");
}

void spsh__page_close(spsh__builder *out)
{
    spsh__builder_append_text(out, "</main></body></html>\n");
}

/* ---- the head ---- */

void spsh__page_word(spsh__builder *line, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "_-+=./,:@%";
    spsh__builder_append_text(line, line->size_bytes > 0 ? " " : "");
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        spsh__builder_append_text(line, word);
        return;
    }
    spsh__builder_append_text(line, "'");
    for (const char *at = word; *at != '\0'; at++)
        spsh__builder_append(line, *at == '\'' ? "'\\''" : at, *at == '\'' ? 4 : 1);
    spsh__builder_append_text(line, "'");
}

void spsh__page_made_open(spsh__builder *out)
{
    spsh__builder_append_text(out, "<dl class=\"made\">\n");
}

void spsh__page_made_open_row(spsh__builder *out, const char *what)
{
    spsh__html_format(out, "<dt>%s</dt><dd>", what);
}

void spsh__page_made_close_row(spsh__builder *out)
{
    spsh__builder_append_text(out, "</dd>\n");
}

void spsh__page_made_close(spsh__builder *out, spsh_bytes command)
{
    spsh__page_made_open_row(out, "command");
    spsh__builder_append_text(out, "<code>");
    spsh__html_text(out, command);
    spsh__builder_append_text(out, "</code></dd>\n<dt>page</dt><dd data-up=\"0\">this file</dd>\n"
                                   "<dt>written</dt><dd data-written=\"1\">see the date of this "
                                   "file</dd>\n</dl>\n<script>");
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++)
        spsh__builder_append_text(out, script[i]);
    spsh__builder_append_text(out, "</script>\n");
}
