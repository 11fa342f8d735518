/* png_out.c: see png_out.h.
 *
 * libpng tells of errors by longjmp to where setjmp was called last. Nothing is taken between the
 * two but by libpng itself, and no local that is used after it changes in between.
 */
#include "png_out.h"

#include <png.h>
#include <setjmp.h>
#include <string.h>

enum { COLORS_MAX = 256, TEXTS_MAX = 2 };

static void append(png_structp writer, png_bytep data, size_t size_bytes)
{
    spsh__builder_append((spsh__builder *)png_get_io_ptr(writer), data, size_bytes);
}

static void flush(png_structp writer)
{
    (void)writer;
}

/* Warnings are about files of others. */
static void ignore(png_structp writer, png_const_charp text)
{
    (void)writer;
    (void)text;
}

static void stop(png_structp writer, png_const_charp text)
{
    (void)text;
    png_longjmp(writer, 1);
}

static void put_text(png_text *texts, int *count, const char *key, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    /* libpng's struct is not const, and what it points to is not written to. */
    union {
        const char *is;
        char *was;
    } name = {key}, value = {text};
    texts[*count] = (png_text){.compression = PNG_ITXT_COMPRESSION_NONE,
                               .key = name.was,
                               .text = value.was,
                               .itxt_length = strlen(text)};
    (*count)++;
}

/* May longjmp. */
static void write_head(png_structp writer, png_infop info, const spsh__png *png)
{
    png_color palette[COLORS_MAX];
    png_text texts[TEXTS_MAX];
    int count = 0;
    for (uint32_t i = 0; i < png->color_count; i++)
        palette[i] = (png_color){.red = (png_byte)(png->colors[i] >> 16),
                                 .green = (png_byte)(png->colors[i] >> 8),
                                 .blue = (png_byte)png->colors[i]};
    put_text(texts, &count, "Title", png->title);
    put_text(texts, &count, "Description", png->description);
    png_set_IHDR(writer, info, png->width, png->height, 8, PNG_COLOR_TYPE_PALETTE,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_PLTE(writer, info, palette, (int)png->color_count);
    if (count > 0)
        png_set_text(writer, info, texts, count);
    png_write_info(writer, info);
}

spsh_status spsh__png_write(const spsh__png *png, spsh__builder *out, spsh_error *err)
{
    png_structp writer = NULL;
    png_infop info = NULL;
    if (png->width == 0 || png->height == 0 || png->color_count == 0 ||
        png->color_count > COLORS_MAX) {
        spsh_error_set(err, SPSH_E_INVALID_ARG, 0, SPSH_OFFSET_NONE, "a PNG without pixels");
        return SPSH_E_INVALID_ARG;
    }
    writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, stop, ignore);
    if (writer != NULL)
        info = png_create_info_struct(writer);
    if (info == NULL || setjmp(png_jmpbuf(writer)) != 0) {
        png_destroy_write_struct(&writer, &info);
        spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory for a PNG");
        return SPSH_E_NO_MEMORY;
    }
    png_set_write_fn(writer, out, append, flush);
    write_head(writer, info, png);
    for (uint32_t y = 0; y < png->height; y++)
        png_write_row(writer, png->pixels + (size_t)y * png->width);
    png_write_end(writer, info);
    png_destroy_write_struct(&writer, &info);
    if (out->failed) {
        spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory for a PNG");
        return SPSH_E_NO_MEMORY;
    }
    return SPSH_OK;
}
