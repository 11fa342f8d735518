/* container.h: header, sections, page table and footers that every .spsh file shares (FORMAT.md 2).
 */
#ifndef SPSH_CONTAINER_H
#define SPSH_CONTAINER_H

#include "base/base_internal.h"
#include "speechshard/io.h"

#define SPSH__PAGE_BYTES                                                                           \
    UINT32_C(4096)                          /* size of header and footer; alignment of blocks and
                                              areas */
#define SPSH__SECTION_PAGE  UINT32_C(65536) /* unit of index checksums */
#define SPSH__SECTIONS_MAX  UINT32_C(256)
#define SPSH__FOOTERS_BYTES UINT32_C(8192)

typedef enum spsh__file_kind {
    SPSH__KIND_SHARD = 1,
    SPSH__KIND_MANIFEST = 2,
    SPSH__KIND_INDEX = 3,
    SPSH__KIND_OVERLAY = 4,
    SPSH__KIND_FINGERPRINT = 5,
    SPSH__KIND_STATISTICS = 6,
    SPSH__KIND_CHECKPOINT = 7,
} spsh__file_kind;

typedef struct spsh__header {
    uint8_t file_id[16];
    uint32_t kind;
    uint8_t dataset_id[16];
    uint64_t ordinal;
    uint32_t sub_ordinal;
    uint64_t first_record;
    uint64_t first_utterance;
    uint64_t features_readonly; /* as read: code that adds to a dataset must fail if it is not 0;
                                   encode writes 0 */
} spsh__header;

typedef struct spsh__footer {
    uint8_t file_id[16];
    uint32_t kind;
    uint32_t section_count;
    uint64_t file_bytes;
    uint64_t section_area_offset, section_area_bytes;
    uint64_t page_table_offset, page_table_bytes, page_count, page_table_checksum;
    uint64_t block_count;
    uint8_t root_hash[16];
    uint64_t record_count, utterance_count;
} spsh__footer;

/* True if bytes, such as the first ones of a file, start with the magic number of a header. */
bool spsh__header_is_ours(const uint8_t *bytes, size_t size_bytes);

/* page has SPSH__PAGE_BYTES. */
void spsh__header_encode(const spsh__header *header, uint8_t *page);
spsh_status spsh__header_decode(const uint8_t *page, const char *path, spsh__header *ret_header,
                                spsh_error *err);
void spsh__footer_encode(const spsh__footer *footer, uint32_t copy, uint8_t *page);
/* file_bytes: the file's real size. Checks every rule of FORMAT.md 2.4 that needs no other part. */
spsh_status spsh__footer_decode(const uint8_t *page, uint32_t copy, uint64_t file_bytes,
                                const char *path, spsh__footer *ret_footer, spsh_error *err);

/* The footer's root hash: header checksum, block checksums in file order, page table checksum. */
spsh_status spsh__root_hash(uint64_t header_checksum, const uint64_t *block_checksums,
                            uint64_t block_count, uint64_t page_table_checksum,
                            const spsh_allocator *allocator, uint8_t ret_hash[16], spsh_error *err);

/* ---- writing sections ---- */

typedef struct spsh__section {
    uint32_t id;
    uint32_t element_bytes;
    uint64_t count;
} spsh__section;

/* Writer of directory, sections, page table, and footers of a file whose header and blocks are
 * written. Sections may be appended to in any interleaving. Each has a buffer, so memory is
 * bounded. */
typedef struct spsh__section_writer spsh__section_writer;

/* area_offset: spsh_file_writer_size(), a multiple of 4096. sections ascend by id and are copied.
 * file and allocator are borrowed. */
spsh_status spsh__section_writer_open(spsh_file_writer *file, const spsh__header *header,
                                      const spsh__section *sections, uint32_t section_count,
                                      const spsh_allocator *allocator,
                                      spsh__section_writer **ret_writer, spsh_error *err);
/* Append count elements (already little-endian) to the section with that id. */
spsh_status spsh__section_append(spsh__section_writer *writer, uint32_t id, const void *elements,
                                 uint64_t count, spsh_error *err);
/* Write the rest. block_checksums has block_count values for the root hash, which the caller keeps
 * as a list; NULL if block_count is 0. SPSH_E_INVALID_ARG if a section was not filled. */
spsh_status spsh__section_writer_finish(spsh__section_writer *writer,
                                        const uint64_t *block_checksums, uint64_t block_count,
                                        uint64_t record_count, uint64_t utterance_count,
                                        spsh__footer *ret_footer, spsh_error *err);
void spsh__section_writer_free(spsh__section_writer *writer);

/* ---- reading ---- */

/* An open container: header and footer checked, section area mapped, pages checked when first
 * touched. Column access is thread-safe (a bitmap of checked pages, set atomically). */
typedef struct spsh__container spsh__container;

/* kind 0 accepts any kind. A wrong kind is SPSH_E_MISMATCH. io NULL: default; borrowed until close.
 */
spsh_status spsh__container_open(const spsh_io *io, const char *path, uint32_t kind,
                                 const spsh_allocator *allocator, spsh__container **ret_container,
                                 spsh_error *err);
void spsh__container_close(spsh__container *container);
const spsh__header *spsh__container_header(const spsh__container *container);
const spsh__footer *spsh__container_footer(const spsh__container *container);
const char *spsh__container_path(const spsh__container *container);
int spsh__container_fd(const spsh__container *container);
/* Close the descriptor (fd becomes -1), for callers that only read columns: these are mapped. */
void spsh__container_release_fd(spsh__container *container);

/* Return the element count of a section, or 0 if it is absent: the caller must check required
 * sections. */
uint64_t spsh__container_count(const spsh__container *container, uint32_t id);

/* Check that a section exists with that width and count (UINT64_MAX: any count). Used at open. */
spsh_status spsh__container_require(const spsh__container *container, uint32_t id,
                                    uint32_t element_bytes, uint64_t count, spsh_error *err);

/* Check likewise a string table of count strings (ends_id, ends_id + 1), whose last end must be the
 * bytes' count. The order of ends is checked when each string is read. */
spsh_status spsh__container_require_strings(const spsh__container *container, uint32_t ends_id,
                                            uint64_t count, spsh_error *err);

/* Get elements [first, first + count) of a section, with bounds and page checksums checked. *ret
 * points into the mapping. */
spsh_status spsh__container_column(const spsh__container *container, uint32_t id, uint64_t first,
                                   uint64_t count, const uint8_t **ret_elements, spsh_error *err);
/* spsh__container_column, with the size of the elements. */
spsh_status spsh__container_elements(const spsh__container *container, uint32_t id, uint64_t first,
                                     uint64_t count, spsh_bytes *ret_elements, spsh_error *err);
/* Advise the kernel that these elements will be read. A caller that touches many columns lets the
 * disk read them all at once instead of one after another. */
void spsh__container_prefetch(const spsh__container *container, uint32_t id, uint64_t first,
                              uint64_t count);
/* Read one little-endian element. */
spsh_status spsh__container_u16(const spsh__container *container, uint32_t id, uint64_t at,
                                uint16_t *ret_value, spsh_error *err);
spsh_status spsh__container_u32(const spsh__container *container, uint32_t id, uint64_t at,
                                uint32_t *ret_value, spsh_error *err);
spsh_status spsh__container_u64(const spsh__container *container, uint32_t id, uint64_t at,
                                uint64_t *ret_value, spsh_error *err);
/* Get string k of the string table whose ends are section ends_id and whose bytes are ends_id + 1.
 */
spsh_status spsh__container_string(const spsh__container *container, uint32_t ends_id, uint64_t k,
                                   spsh_bytes *ret_string, spsh_error *err);

/* Check one page of the section area against the page table, for verify (page < footer's
 * page_count). */
spsh_status spsh__container_check_page(const spsh__container *container, uint64_t page,
                                       spsh_error *err);
/* Check that gaps between sections, the area's tail, and the page table's padding are zero, for
 * verify. All pages must be good. */
spsh_status spsh__container_check_padding(const spsh__container *container, spsh_error *err);
/* Check every page, then the padding. */
spsh_status spsh__container_check_all(const spsh__container *container, spsh_error *err);

#endif
