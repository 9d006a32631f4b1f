/* zip.h - private: read and write zip archives, and replace records in them. */
#ifndef GT_CKPT_ZIP_ZIP_H
#define GT_CKPT_ZIP_ZIP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/ckpt/ckpt.h"

/*
 * A zip archive consists of records, a directory and an end record. A record has a local header and
 * bytes, which are stored or deflated (compressed). The directory has one entry per record, which
 * repeats the local header and gives its offset. The end record gives the offset of the directory.
 * gtrain supports neither encrypted archives nor archives in several parts. Source: PKWARE,
 * "APPNOTE.TXT - .ZIP File Format Specification", 6.3.10, sections 4.3 and 4.5.3 (zip64).
 */

/* Constants of the format. */
enum {
	GT_ZIP_LOCAL_BYTES = 30, /* size of a local header, without name and extra fields */
	/* size of an entry of the directory, without name, extra fields, comment */
	GT_ZIP_CENTRAL_BYTES = 46,
	GT_ZIP_END_BYTES = 22,   /* size of the end record, without its comment */
	GT_ZIP_END64_BYTES = 56, /* size of the zip64 end record */
	/* size of the locator, which gives the offset of the zip64 end record */
	GT_ZIP_LOCATOR_BYTES = 20,
	GT_ZIP_COMMENT_MAX = 65535, /* maximum size of a comment */
	GT_ZIP_FIELD_BYTES = 4,     /* size of the header of an extra field */
	GT_ZIP_ID_ZIP64 = 1, /* id of the extra field that contains 64-bit sizes and offsets */
	/* flag: sizes and CRC-32 are in a data descriptor after the bytes */
	GT_ZIP_FLAG_DESCRIPTOR = 1 << 3,
	GT_ZIP_FLAG_UTF8 = 1 << 11, /* flag: the name is UTF-8 */
	GT_ZIP_VERSION_STORED = 10, /* version of zip that a reader needs for a stored record */
	GT_ZIP_VERSION_ZIP64 = 45,  /* version of zip that a reader needs for zip64 */
	/*
	 * The earliest date that the format has, 1 January 1980. All records get it, so files do
	 * not depend on the clock.
	 */
	GT_ZIP_DATE_ZERO = 1 << 5 | 1,
};

/*
 * Return the value of a 32-bit field for a size or an offset. If the value does not fit, return a
 * value with all bits set, which means that the zip64 field contains the value.
 */
static inline uint64_t gt_zip_or_ones(uint64_t value)
{
	return value < UINT32_MAX ? value : UINT32_MAX;
}

/* ---- reading ---- */

struct gt_zip_record {
	const char *name; /* zero-terminated, such as "archive/data/0" */
	uint16_t method;  /* 0: stored, 8: deflated */
	uint16_t flags;   /* bits such as GT_ZIP_FLAG_UTF8 */
	/* CRC-32 of the unpacked bytes; 0: the record has none (see gt_zip_open_record()) */
	uint32_t crc;
	/* packed: number of bytes in the file. size: number of bytes after unpacking. */
	uint64_t packed, size;
	/* header: offset of the local header in the file. data: offset of the bytes. */
	uint64_t header, data;
	const unsigned char *entry; /* a copy of the entry in the directory */
	size_t entry_bytes;         /* size of the entry, with name, extra fields, comment */
	uint64_t entry_at;          /* offset of the entry in the file */
};

struct gt_zip {
	const struct gt_mapping *map;  /* the whole file; borrowed */
	struct gt_zip_record *records; /* [count] in the arena; sorted by name, ignoring case */
	size_t count;
	uint64_t unpacked; /* number of bytes inflated so far */
	/*
	 * directory: offset of the directory. directory_bytes: its size. end: offset of the first
	 * end record, which is the zip64 end record if the archive has one.
	 */
	uint64_t directory, directory_bytes, end;
	const unsigned char *comment; /* a copy of the comment of the end record */
	size_t comment_bytes;
};

/*
 * Read the directory of a mapped file. The directory is copied into the arena and checked there, so
 * another process that writes to the file meanwhile cannot change the checked bytes.
 *
 * If parts of an archive contradict each other, different programs use different parts. Then an
 * attacker can show one content to a scanner and another content to the program that uses the file.
 * An archive that this function accepts can be read in only one way:
 *   - The file ends with the directory and the end records, with nothing between them. Only the
 *     comment of the end record may follow, and it must not contain another end record.
 *   - Each record has a local header that agrees with the directory: name, method, flags, sizes,
 *     CRC-32. Sizes and CRC-32 may be 0 in the header if a data descriptor follows the bytes.
 *   - No two records overlap, and none overlaps the directory. Bytes before the directory that
 *     belong to no record are called dead bytes; an edit in place leaves dead bytes.
 *   - No two records have the same name. This comparison ignores case, because PyTorch ignores case
 *     when it looks up a name (miniz, mz_zip_reader_locate_file() with flags 0). Exception:
 *     two names that end with ".npy", such as "W.npy" and "w.npy", may differ by case alone,
 *     because NumPy distinguishes them.
 *
 * Cost: a read of about 100 bytes for each record. Errors: GT_EFORMAT for contradictions, and if
 * there is no end record (a truncated file); the text names the byte or the record. GT_ENOTSUP for
 * an encrypted record.
 */
int gt_zip_read(
    struct gt_zip *out, const struct gt_mapping *map, struct gt_arena *arena, struct gt_err *err);

/* Return the record with exactly this name, or NULL. Upper and lower case are distinguished. */
const struct gt_zip_record *gt_zip_find(const struct gt_zip *zip, const char *name);

/*
 * Set *bytes to a copy of the bytes of a record, in the arena. Deflated bytes are inflated. The
 * result is compared with the CRC-32 of the record. A CRC-32 of 0 means that the record has none:
 * PyTorch writes 0 if it does not compute the checksum (pytorch/pytorch#125184). Errors: GT_EFORMAT
 * for damaged bytes; GT_ENOTSUP for another compression method, and, with err->over_limit, for more
 * than gt_zip_unpack_limit() bytes in all.
 */
int gt_zip_open_record(struct gt_zip *zip, const struct gt_zip_record *record,
    struct gt_arena *arena, const unsigned char **bytes, struct gt_err *err);

/*
 * A function that gets inflated bytes, as they come. It returns 0, or 1 to end without an error, or
 * an error.
 */
typedef int gt_zip_take(void *self, const unsigned char *bytes, size_t size, struct gt_err *err);

/* The result of inflating. */
struct gt_zip_inflated {
	uint64_t size; /* number of bytes inflated */
	uint64_t left; /* number of packed bytes behind the end of the deflated data */
	bool ended;    /* the deflated data is whole */
};

/*
 * Inflate at most `packed` bytes from offset `at` of a file, in constant memory. Data that does not
 * inflate is no error: see *out. Errors: GT_EIO, GT_ENOMEM, and those of `take`.
 */
int gt_zip_inflate(struct gt_zip_inflated *out, const struct gt_mapping *map, uint64_t at,
    uint64_t packed, gt_zip_take *take, void *self, struct gt_err *err);

/*
 * Return whether the data used up all packed bytes of the record and gave all bytes that it
 * announces: a reader that trusts the other number would see another content.
 */
bool gt_zip_inflated_whole(const struct gt_zip_inflated *got, const struct gt_zip_record *record);

/* Return the number of bytes that may be unpacked into memory from this archive. */
uint64_t gt_zip_unpack_limit(const struct gt_zip *zip);

/* Return whether gtrain can unpack a record: it is stored or deflated. */
bool gt_zip_can_unpack(const struct gt_zip_record *record);

/*
 * Set `storage` to the bytes of a record. Deflated bytes are inflated into the arena now. Stored
 * bytes stay in the mapped file and are not read now. In both cases, the caller compares the bytes
 * with the CRC-32 by gt_storage_check(). The fields key, location and swapped are not set.
 */
int gt_zip_storage(struct gt_zip *zip, const struct gt_zip_record *record, struct gt_arena *arena,
    struct gt_storage *storage, struct gt_err *err);

/* ---- checks of gt_zip_read() (record.c) ---- */

/* Check the name of the directory entry at offset `at`: it must be a plain relative path. */
int gt_zip_check_name(const char *name, size_t length, size_t at, struct gt_err *err);

/*
 * Compare the local header of each record with the directory, set record->data, and check that
 * records overlap neither each other nor the directory.
 */
int gt_zip_check_places(struct gt_zip *zip, struct gt_err *err);

/* ---- dead bytes and earlier states of the file ---- */

/*
 * Get the number of dead bytes of the file, such as records that edits in place have replaced.
 * Errors: GT_EIO, GT_ENOMEM.
 */
int gt_zip_dead_bytes(const struct gt_zip *zip, uint64_t *out, struct gt_err *err);

/* a suitable start value of *tries in gt_zip_earlier() */
enum { GT_ZIP_TRIES = 16 };

/*
 * Find an earlier state of the archive: the size to which the file must be cut to undo an append.
 * Search backward from offset *below, over at most `reach` bytes, for an end record with a
 * directory that can be read. If such an end record is found, return true, set *out_size to the
 * size, and set *below to the offset of this end record; the next call continues the search from
 * there. Otherwise return false. The bytes of records are not checked.
 *
 * *tries is the number of end records that the function may still examine; for each one it may read
 * a whole directory. The function subtracts the number of end records that it has examined.
 */
bool gt_zip_earlier(
    const struct gt_mapping *map, uint64_t *below, uint64_t reach, int *tries, uint64_t *out_size);

/*
 * Return true if the bytes from offset `size` to the end of the file can be the start of an edit in
 * place that was interrupted. Such an edit begins with the local header that gtrain writes. After a
 * power cut, its last bytes, or all of them, may be zeros, because the file system had not written
 * them yet. Other bytes are foreign: no edit of gtrain wrote them.
 */
bool gt_zip_edit_follows(const struct gt_mapping *map, uint64_t size);

/*
 * Add a hint to the error of opening a damaged archive, if an earlier state ends in the last 16 MiB
 * of the file. The hint says that foreign bytes follow this state, or else that the file can be
 * repaired (gt_repair(), lib/ckpt/tools/verify.h). Return err->code.
 */
int gt_zip_hint_repair(const struct gt_mapping *map, struct gt_err *err);

/* Add the hint that the bytes from offset `size` on are foreign. Return err->code. */
int gt_zip_hint_foreign(const struct gt_mapping *map, uint64_t size, struct gt_err *err);

/* ---- writing ---- */

/* alignment of the bytes of records, as in PyTorch; so a program can map the file and use the bytes
 * without a copy */
enum { GT_ZIP_ALIGN = 64 };

/* A record that is being written. */
struct gt_zip_written {
	char *name;
	/* size of the bytes; offsets of the local header and of the bytes */
	uint64_t size, header, data;
	uint32_t crc; /* CRC-32 of the bytes; must be set before gt_zip_finish() */
};

/* An archive that is being written. A zeroed struct is an empty archive. */
struct gt_zip_writer {
	struct gt_zip_written *records;
	size_t count, capacity;
	uint64_t end; /* offset of the end of the last record */
};

/*
 * Add a record with the name `name` and `size` bytes, and set *data to the offset of its bytes. To
 * write an archive:
 *   1. Add all records.
 *   2. Write the bytes of each record, in any order. Either call gt_zip_put(), or write them at the
 *      offset *data and set the `crc` of the record.
 *   3. Call gt_zip_finish(), which writes the headers.
 * Call gt_zip_release() in every case.
 */
int gt_zip_add(
    struct gt_zip_writer *zip, const char *name, uint64_t size, uint64_t *data, struct gt_err *err);
/*
 * Write the bytes of a record to the file `fd`, and set its `crc`. `record` is the index of the
 * record: 0 is the record of the first gt_zip_add().
 */
int gt_zip_put(
    struct gt_zip_writer *zip, size_t record, int fd, const void *bytes, struct gt_err *err);
/* Write all local headers, the directory and the end record to the file `fd`. */
int gt_zip_finish(struct gt_zip_writer *zip, int fd, struct gt_err *err);
void gt_zip_release(struct gt_zip_writer *zip);

/*
 * Append parts of an archive to a buffer.
 *
 * gt_zip_put_local(): the local header of a record, with padding up to offset record->data.
 *
 * gt_zip_put_zip64(): the zip64 extra field. fields[] are size, packed size and offset; the extra
 * field contains only the values that do not fit into 32 bits. Return its length, or 0 if all fit.
 *
 * gt_zip_put_end(): the end record, and before it the zip64 end record and locator if they are
 * needed. The directory has `count` entries and is [start, start + bytes) in the file.
 */
void gt_zip_put_local(struct gt_buf *out, const struct gt_zip_written *record);
size_t gt_zip_put_zip64(struct gt_buf *out, const uint64_t fields[3]);
void gt_zip_put_end(struct gt_buf *out, uint64_t count, uint64_t start, uint64_t bytes,
    const void *comment, size_t comment_bytes);

/*
 * ---- replacing the bytes of records ----
 *
 * Example: an edit in place replaces the 100 bytes of data.pkl by 120 bytes. Headers are left out
 * of the table. "dir" is the directory, with the offset of each record; "end" is the end record,
 * with the offset of the directory.
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
 * the write, the file does not end with a complete end record. Then readers reject the file, until
 * gt_repair() (lib/ckpt/tools/verify.h) cuts it after the old end record. An edit can also write a
 * copy of the archive (gt_zip_replace_copy()) instead of changing the file. The copy has the new
 * data.pkl and the weights, and no dead bytes.
 */

/* New bytes for a record. */
struct gt_zip_new {
	const char *name;  /* name of an existing record */
	const void *bytes; /* the new bytes; they are written without compression */
	size_t size;
};

/* maximum number of records that one edit can replace */
enum { GT_ZIP_REPLACE_MAX = 2 };

/* A set of records to replace, and the result. */
struct gt_zip_replacement {
	struct gt_zip_new records[GT_ZIP_REPLACE_MAX];
	size_t count;

	/*
	 * Results, in bytes. written: new bytes. copied: bytes from the old file. dead: dead bytes
	 * in the file after the edit.
	 */
	uint64_t written, copied, dead;
};

/*
 * Replace records in the archive itself, which is open for writing as `fd`. One write appends the
 * new records, a directory and an end record. If the write fails, the file is cut to its old size,
 * so the archive is unchanged. After success, the caller calls gt_change_finish()
 * (lib/base/file.h), which syncs and closes the file.
 */
int gt_zip_replace_in_place(
    int fd, const struct gt_zip *zip, struct gt_zip_replacement *x, struct gt_err *err);

/*
 * Write a copy of the archive with replaced records to the empty file `fd`. The new records come
 * first, then the other records unchanged, with header, bytes and data descriptor. Dead bytes are
 * not copied. Each copied record keeps its offset modulo GT_COPY_BLOCK (lib/base/copy.h). So the
 * file system can share blocks between the two files, and records stay aligned. If `write_back` is
 * set, the system starts to write to the disk during the copy; set it if you call fsync()
 * afterwards.
 */
int gt_zip_replace_copy(int fd, const struct gt_zip *zip, struct gt_zip_replacement *x,
    bool write_back, struct gt_err *err);

#endif
