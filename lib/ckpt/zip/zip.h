/* zip.h - inside ckpt: zip archives, read from a mapping and written. */
#ifndef GT_CKPT_ZIP_ZIP_H
#define GT_CKPT_ZIP_ZIP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/ckpt/ckpt.h"

/*
 * Source of the format: PKWARE, "APPNOTE.TXT - .ZIP File Format Specification", 6.3.10, sections
 * 4.3 and 4.5.3 (zip64). Records are stored or deflated; nothing is encrypted, there is one disk.
 */

/* The format's own numbers, named once. */
enum {
	GT_ZIP_LOCAL_BYTES = 30,   /* bytes of a local header, without name and extra fields */
	GT_ZIP_CENTRAL_BYTES = 46, /* bytes of an entry of the directory, likewise */
	GT_ZIP_END_BYTES = 22,     /* bytes of the end record, without comment */
	GT_ZIP_END64_BYTES = 56,
	GT_ZIP_LOCATOR_BYTES = 20, /* bytes of the locator of the zip64 end record */
	GT_ZIP_COMMENT_MAX = 65535,
	GT_ZIP_FIELD_BYTES = 4,          /* bytes of the header of an extra field */
	GT_ZIP_ID_ZIP64 = 1,             /* the extra field of 64-bit sizes */
	GT_ZIP_FLAG_DESCRIPTOR = 1 << 3, /* sizes and CRC-32 stand behind the bytes */
	GT_ZIP_FLAG_UTF8 = 1 << 11,
	GT_ZIP_VERSION_STORED = 10, /* needed to extract */
	GT_ZIP_VERSION_ZIP64 = 45,
	/* The earliest date of the format, 1 January 1980. All records have it, so files do not
	 * depend on the clock. */
	GT_ZIP_DATE_ZERO = 1 << 5 | 1,
};

/* A size or place in a field of 32 bits: all ones if the value does not fit, so it is in the zip64
 * field. */
static inline uint64_t gt_zip_or_ones(uint64_t value)
{
	return value < UINT32_MAX ? value : UINT32_MAX;
}

/* ---- reading ---- */

struct gt_zip_record {
	const char *name; /* zero-terminated, "archive/data/0" */
	uint16_t method;  /* 0 stored, 8 deflated */
	uint16_t flags;
	uint32_t crc;          /* CRC-32 of the bytes, or 0 for none (see gt_zip_open_record()) */
	uint64_t packed, size; /* bytes in the file, bytes when unpacked */
	uint64_t header, data; /* offsets of the local header, and of the bytes */
	const unsigned char *entry; /* a copy of the directory's entry, */
	size_t entry_bytes;         /* with its name, extra fields and comment, */
	uint64_t entry_at;          /* and its offset */
};

struct gt_zip {
	const struct gt_mapping *map;  /* the whole file, borrowed */
	struct gt_zip_record *records; /* sorted by name, with case ignored */
	size_t count;
	uint64_t unpacked;                        /* bytes inflated so far */
	uint64_t directory, directory_bytes, end; /* where they start; end: the first end record */
	const unsigned char *comment;             /* a copy of the comment after the end records */
	size_t comment_bytes;
};

/*
 * Read the directory of a mapped file, from copies in the arena: another process that writes to the
 * file meanwhile cannot change the checked bytes. When an archive contradicts itself, readers of
 * zip choose different fields to believe, so an attacker can show one content to a scanner and
 * another to its user. An archive accepted here has only one reading:
 *   - the file ends with the directory and the end records, nothing between and nothing after (a
 *     comment may follow, without an end record in it);
 *   - each record has a local header that agrees with the directory: name, method, flags, sizes,
 *     CRC-32 (the header may leave these 0 if a data descriptor follows);
 *   - no two records overlap, and none overlaps the directory. Bytes between them that belong to
 *     none are dead, as an edit in place leaves them;
 *   - names are unique when case is ignored, because PyTorch ignores case when it looks a name up
 *     (miniz, mz_zip_reader_locate_file() with flags 0). Only names of arrays (.npy) may differ in
 *     case alone, because numpy distinguishes "W" from "w";
 * Costs a read of some 100 bytes for each record. Errors: GT_EFORMAT, which names the byte or the
 * record; also when there is no end record (a cut file).
 */
int gt_zip_read(
    struct gt_zip *out, const struct gt_mapping *map, struct gt_arena *arena, struct gt_err *err);

/* The record of this name, or NULL. */
const struct gt_zip_record *gt_zip_find(const struct gt_zip *zip, const char *name);

/*
 * A copy in the arena of a record's bytes, inflated where they are deflated, CRC-32 checked. A
 * CRC-32 of 0 means that there is none: PyTorch writes 0 when it does not compute the checksum
 * (pytorch/pytorch#125184).
 */
int gt_zip_open_record(struct gt_zip *zip, const struct gt_zip_record *record,
    struct gt_arena *arena, const unsigned char **bytes, struct gt_err *err);

/* The same for a storage. If the record is not deflated, its bytes stay in the file and are not
 * read: gt_storage_check() will compare them. Sets all but key, location and swapped. */
int gt_zip_storage(struct gt_zip *zip, const struct gt_zip_record *record, struct gt_arena *arena,
    struct gt_storage *storage, struct gt_err *err);

/* The checks of gt_zip_read() (record.c). */

/* Check the name of the directory entry at byte `at`: a plain path. */
int gt_zip_check_name(const char *name, size_t length, size_t at, struct gt_err *err);

/* Compare each record's local header with the directory, set where its bytes are, and check that
 * records overlap neither each other nor the directory. */
int gt_zip_check_places(struct gt_zip *zip, struct gt_err *err);

/* ---- bytes that nothing needs, earlier states ---- */

/*
 * Bytes of the file that nothing refers to: records replaced by edits in place. Errors: GT_EIO,
 * GT_ENOMEM.
 */
int gt_zip_dead_bytes(const struct gt_zip *zip, uint64_t *out, struct gt_err *err);

/*
 * Where the file would have to be cut to be the archive that it was before something was appended:
 * the last end record before byte *below (at most `reach` bytes before) whose directory can be
 * read. *below gets where it stands, to go on from there. False when there is none. Records are not
 * checked. *tries counts down the end records that are looked into: each may cost a reading of the
 * whole directory.
 */
enum { GT_ZIP_TRIES = 16 };

bool gt_zip_earlier(
    const struct gt_mapping *map, uint64_t *below, uint64_t reach, int *tries, uint64_t *out_size);

/* To an error of opening a damaged archive add the hint that it can be mended, if an earlier state
 * of it stands in its last 16 MiB. Returns err->code. */
int gt_zip_hint_repair(const struct gt_mapping *map, struct gt_err *err);

/* ---- writing ---- */

enum { GT_ZIP_ALIGN = 64 }; /* as in PyTorch's files, so a record can be mapped and used in place */

struct gt_zip_written {
	char *name;
	uint64_t size, header, data; /* offsets of the local header and of the bytes */
	uint32_t crc;                /* of the bytes: set before gt_zip_finish() */
};

/* An archive that is being written; zeroed, it is empty. */
struct gt_zip_writer {
	struct gt_zip_written *records;
	size_t count, capacity;
	uint64_t end; /* of the last record */
};

/*
 * First add all records with their sizes. Then write the bytes of each record, in any order: either
 * by gt_zip_put(), or at the offset that gt_zip_add() returned, and set the CRC. Then call
 * gt_zip_finish(), which writes the headers. Call gt_zip_release() in every case.
 */
int gt_zip_add(
    struct gt_zip_writer *zip, const char *name, uint64_t size, uint64_t *data, struct gt_err *err);
/* Write the bytes of a record, the i-th that was added, and set its CRC. */
int gt_zip_put(
    struct gt_zip_writer *zip, size_t record, int fd, const void *bytes, struct gt_err *err);
/* Write all headers, the directory and the end record. */
int gt_zip_finish(struct gt_zip_writer *zip, int fd, struct gt_err *err);
void gt_zip_release(struct gt_zip_writer *zip);

/*
 * The parts of an archive: a record's local header, up to its bytes; the extra field of those of
 * size, packed size and offset that 32 bits do not hold, whose length is returned (0: none do not);
 * the end, with the zip64 records where needed, behind a directory that is [start, start + bytes).
 */
void gt_zip_put_local(struct gt_buf *out, const struct gt_zip_written *record);
size_t gt_zip_put_zip64(struct gt_buf *out, const uint64_t fields[3]);
void gt_zip_put_end(struct gt_buf *out, uint64_t count, uint64_t start, uint64_t bytes,
    const void *comment, size_t comment_bytes);

/*
 * ---- exchanging records ----
 *
 * Example: an edit in place gives data.pkl, of 100 bytes, new content of 120 bytes. Headers are
 * left out; "dir" is the directory, which lists names and offsets of records, and "end" the end
 * record, which gives the offset of the directory.
 *
 *   offset  before            after
 *   0       data.pkl (100)    dead
 *   100     weights (4000)    weights (4000)
 *   4100    dir: 0, 100       dead
 *   4200    end: 4100         dead
 *   4300                      data.pkl (120)
 *   4420                      dir: 4300, 100
 *   4520                      end: 4420
 *
 * Readers begin at the end of the file, so they find the new directory. If the system stops during
 * the write, the file has no complete end record at its end: readers reject the file, and
 * gt_repair() cuts it after the old end record. An edit into a copy writes data.pkl and weights,
 * and leaves the dead bytes.
 */

struct gt_zip_new {
	const char *name;  /* of an existing record */
	const void *bytes; /* the new content, written without compression */
	size_t size;
};

enum { GT_ZIP_EXCHANGE_MAX = 2 };

struct gt_zip_exchange {
	struct gt_zip_new records[GT_ZIP_EXCHANGE_MAX];
	size_t count;

	/* Results: bytes written, bytes copied from the old file, unused bytes in the new file. */
	uint64_t written, moved, dead;
};

/*
 * Into the archive itself, open as `fd`: one write appends the new records, a directory and an end
 * record. Before that write, and after one that an error cut short, the archive is as it was. The
 * caller then calls gt_change_finish().
 */
int gt_zip_exchange_in_place(
    int fd, const struct gt_zip *zip, struct gt_zip_exchange *x, struct gt_err *err);

/*
 * Into the empty file `fd`: the new records first, then the others unchanged, with header, bytes
 * and sums; bytes that no directory lists are not copied. Records move by whole blocks
 * (lib/base/copy.h): then a file system can share the blocks, and the records keep their alignment.
 * With `write_back` the disk starts writing during the copy, because the caller calls fsync() next.
 */
int gt_zip_exchange_copy(int fd, const struct gt_zip *zip, struct gt_zip_exchange *x,
    bool write_back, struct gt_err *err);

#endif
