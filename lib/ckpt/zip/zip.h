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
 * A zip has records, a directory with an entry per record, and an end record with the offset of
 * the directory. A record has a local header and bytes, stored or deflated. gtrain supports
 * neither encrypted archives nor archives in several parts. Source: PKWARE, "APPNOTE.TXT", 6.3.10,
 * sections 4.3 and 4.5.3 (zip64).
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
	/* the earliest date of the format, 1 January 1980, for all records */
	GT_ZIP_DATE_ZERO = 1 << 5 | 1,
};

/* Return the value of a 32-bit field: all bits set if the zip64 field has the value. */
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
 * Read and check the directory of a mapped file, in the arena. GT_EFORMAT: the archive is damaged,
 * or can be read in more than one way. GT_ENOTSUP: a record is encrypted.
 */
int gt_zip_read(
    struct gt_zip *out, const struct gt_mapping *map, struct gt_arena *arena, struct gt_err *err);

/* Return the record with exactly this name, or NULL. Upper and lower case are distinguished. */
const struct gt_zip_record *gt_zip_find(const struct gt_zip *zip, const char *name);

/*
 * Set *bytes to a copy of the unpacked bytes of a record, in the arena, compared with its CRC-32
 * (0: it has none). GT_ENOTSUP: an unknown method, or, with err->over_limit, more than
 * gt_zip_unpack_limit() bytes in all.
 */
int gt_zip_open_record(struct gt_zip *zip, const struct gt_zip_record *record,
    struct gt_arena *arena, const unsigned char **bytes, struct gt_err *err);

/* Take inflated bytes. Return 0, 1 to end without an error, or an error. */
typedef int gt_zip_take(void *self, const unsigned char *bytes, size_t size, struct gt_err *err);

/* The result of inflating. */
struct gt_zip_inflated {
	uint64_t size; /* number of bytes inflated */
	uint64_t left; /* number of packed bytes behind the end of the deflated data */
	bool ended;    /* the deflated data is whole */
};

/*
 * Inflate at most `packed` bytes from offset `at`. Data that does not inflate is no error: see
 * *out.
 */
int gt_zip_inflate(struct gt_zip_inflated *out, const struct gt_mapping *map, uint64_t at,
    uint64_t packed, gt_zip_take *take, void *self, struct gt_err *err);

/* Return whether the data has the packed and the unpacked size that the record announces. */
bool gt_zip_inflated_whole(const struct gt_zip_inflated *got, const struct gt_zip_record *record);

/* Return the number of bytes that may be unpacked into memory from this archive. */
uint64_t gt_zip_unpack_limit(const struct gt_zip *zip);

/* Return whether gtrain can unpack a record: it is stored or deflated. */
bool gt_zip_can_unpack(const struct gt_zip_record *record);

/*
 * Set `storage` to the bytes of a record, without key, location and swapped. Only deflated bytes
 * are read now. The caller calls gt_storage_check().
 */
int gt_zip_storage(struct gt_zip *zip, const struct gt_zip_record *record, struct gt_arena *arena,
    struct gt_storage *storage, struct gt_err *err);

/* ---- checks of gt_zip_read() (record.c) ---- */

/* Check the name of the directory entry at offset `at`: it must be a plain relative path. */
int gt_zip_check_name(const char *name, size_t length, size_t at, struct gt_err *err);

/*
 * Check the local header of each record, set record->data, and check that records do not overlap.
 */
int gt_zip_check_places(struct gt_zip *zip, struct gt_err *err);

/* ---- dead bytes and earlier states of the file ---- */

/* Get the number of bytes that belong to no record; edits in place leave such dead bytes. */
int gt_zip_dead_bytes(const struct gt_zip *zip, uint64_t *out, struct gt_err *err);

/* a suitable start value of *tries in gt_zip_earlier() */
enum { GT_ZIP_TRIES = 16 };

/*
 * Find the size to which the file must be cut to undo an append, before *below. Continue with the
 * new *below. *tries counts down the end records that may still be examined.
 */
bool gt_zip_earlier(
    const struct gt_mapping *map, uint64_t *below, uint64_t reach, int *tries, uint64_t *out_size);

/*
 * Return whether the bytes from offset `size` on can be an interrupted edit in place: a local
 * header by gtrain, perhaps zeros at the end.
 */
bool gt_zip_edit_follows(const struct gt_mapping *map, uint64_t size);

/*
 * If the file has an earlier state, add the hint to repair it, or that foreign bytes follow.
 * Return err->code.
 */
int gt_zip_hint_repair(const struct gt_mapping *map, struct gt_err *err);

/* Add the hint that the bytes from offset `size` on are foreign. Return err->code. */
int gt_zip_hint_foreign(const struct gt_mapping *map, uint64_t size, struct gt_err *err);

/* ---- writing ---- */

/* alignment of the bytes of records, as in PyTorch, for programs that map the file */
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
	/* offset of the archive in the file, a multiple of GT_ZIP_ALIGN; other offsets count from
	 * there */
	uint64_t base;
};

/*
 * Add a record, and set *data to the offset of its bytes. Add all records; write the bytes with
 * gt_zip_put(), or at *data and set `crc`; call gt_zip_finish(). Call gt_zip_release() in every
 * case.
 */
int gt_zip_add(
    struct gt_zip_writer *zip, const char *name, uint64_t size, uint64_t *data, struct gt_err *err);
/* Write the bytes of a record to the file `fd`, and set its `crc`. `record` counts from 0. */
int gt_zip_put(
    struct gt_zip_writer *zip, size_t record, int fd, const void *bytes, struct gt_err *err);
/* Write all local headers, the directory and the end record to the file `fd`. Then `end` is the
 * size of the archive. */
int gt_zip_finish(struct gt_zip_writer *zip, int fd, struct gt_err *err);
void gt_zip_release(struct gt_zip_writer *zip);

/*
 * Append to a buffer: a local header with padding up to record->data; the zip64 field with those
 * of size, packed size and offset that need it (return its length, or 0); the end records, for a
 * directory of `count` entries in [start, start + bytes).
 */
void gt_zip_put_local(struct gt_buf *out, const struct gt_zip_written *record);
size_t gt_zip_put_zip64(struct gt_buf *out, const uint64_t fields[3]);
void gt_zip_put_end(struct gt_buf *out, uint64_t count, uint64_t start, uint64_t bytes,
    const void *comment, size_t comment_bytes);

/* ---- replacing the bytes of records (an example is in zip/edit.c) ---- */

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
	struct gt_progress *progress; /* the progress line of a copy; NULL: none */

	/*
	 * Results, in bytes. written: new bytes. copied: bytes from the old file. dead: dead bytes
	 * in the file after the edit.
	 */
	uint64_t written, copied, dead;
};

/*
 * Append replaced records to the archive `fd`. After an error the file is unchanged; after success
 * the caller calls gt_change_finish().
 */
int gt_zip_replace_in_place(
    int fd, const struct gt_zip *zip, struct gt_zip_replacement *x, struct gt_err *err);

/*
 * Write a copy of the archive with replaced records, without dead bytes, to the empty file `fd`.
 * Records keep their offsets modulo GT_COPY_BLOCK. Set `write_back` if fsync() follows.
 */
int gt_zip_replace_copy(int fd, const struct gt_zip *zip, struct gt_zip_replacement *x,
    bool write_back, struct gt_err *err);

#endif
