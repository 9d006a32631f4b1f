/* index.c - long lists of files, kept in the user's cache. */
#include <nettle/base16.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "lib/base/file.h"
#include "lib/base/user_cache.h"
#include "lib/data/images/images.h"

/*
 * An index is a header, and behind it, in this order:
 *
 *   struct gt_stamp [stamps]   of the folders that were listed; of an archive, its own
 *   struct place [items]       of the items' content in the archive; none for a folder
 *   uint8_t [items]            IS_... of each item
 *   text                       the key; of each folder its path; of each item its path: all of them
 *                              ended by a zero
 *   bytes                      the content that lies elsewhere, and a zero behind each
 *
 * It counts only as a whole: for its key, with the right checksum, and where each stamp is that of
 * the folder or archive as it is now. A folder's times change with the names in it; the files
 * themselves are read later, and are not looked at.
 */
enum { KEPT_FROM = 10000, VERSION = 3, RECENT_S = 2 };

enum { IS_FOLDER = 1, IS_IN_ARCHIVE = 2, IS_COPIED = 4 };

static const char magic[8] = "GTIDX\r\n";

struct header {
	char magic[8];
	uint32_t version, crc; /* crc: checksum of all bytes after the header */
	uint64_t size;         /* bytes of the file */
	uint64_t stamps, items;
	uint64_t placed; /* the same as items, or 0 */
	uint64_t text, bytes;
};

struct place {
	uint64_t offset, size;
};

struct gt_stamp gt_stamp_of(const struct stat *st)
{
	return (struct gt_stamp){ .inode = st->st_ino,
		.size = st->st_size,
		.mtime_s = st->st_mtim.tv_sec,
		.mtime_ns = st->st_mtim.tv_nsec,
		.ctime_s = st->st_ctim.tv_sec,
		.ctime_ns = st->st_ctim.tv_nsec };
}

static bool same_stamp(const struct gt_stamp *a, const struct stat *st)
{
	const struct gt_stamp b = gt_stamp_of(st);

	return !memcmp(a, &b, sizeof(b));
}

/*
 * The key of an index: a folder or an archive, and the common beginning of the list's paths; yours.
 */
static char *index_key(const struct gt_list *list, const char *path, bool archive)
{
	char *whole = realpath(path, NULL), *key = NULL;

	if (whole)
		key = gt_asprintf(GT_ERR_IGNORED, "%s %s\n%s", archive ? "archive" : "folder",
		    whole, list->labelled ? path : "");
	free(whole);
	return key;
}

/* images/DIGEST.index, yours; NULL: there is no cache. */
static char *file_of(const char *key)
{
	char name[8 + 2 * SHA256_DIGEST_SIZE + 8] = "images/";
	unsigned char digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, strlen(key), (const void *)key);
	sha256_digest(&sha, SHA256_DIGEST_SIZE, digest);
	base16_encode_update(name + 7, SHA256_DIGEST_SIZE, digest);
	strcat(name, ".index");
	return gt_user_cache_path(name);
}

/* ---- loading ---- */

/* A file in memory, its parts, and how far they have been read. */
struct index {
	const struct header *h;
	const struct gt_stamp *stamps;
	const struct place *places;
	const unsigned char *flags;
	const char *text, *text_end;
	const unsigned char *bytes, *bytes_end;
};

static bool add_part(uint64_t *at, uint64_t count, uint64_t size)
{
	uint64_t bytes;

	return !__builtin_mul_overflow(count, size, &bytes) &&
	       !__builtin_add_overflow(*at, bytes, at);
}

/* Find the parts of a file [size] and check its sum. */
static bool open_parts(struct index *x, const unsigned char *p, size_t size)
{
	const struct header *h = (const struct header *)p;
	uint64_t stamps = sizeof(*h), places = stamps, flags, text, bytes, end;

	if (size < sizeof(*h) || memcmp(h->magic, magic, sizeof(magic)) || h->version != VERSION ||
	    h->size != size || !h->stamps || (h->placed && h->placed != h->items))
		return false;
	if (!add_part(&places, h->stamps, sizeof(struct gt_stamp)))
		return false;
	flags = places;
	if (!add_part(&flags, h->placed, sizeof(struct place)))
		return false;
	text = flags;
	if (!add_part(&text, h->items, 1))
		return false;
	bytes = text;
	if (!add_part(&bytes, h->text, 1))
		return false;
	end = bytes;
	if (!add_part(&end, h->bytes, 1) || end != size)
		return false;
	*x = (struct index){ h, (const struct gt_stamp *)(p + stamps),
		(const struct place *)(p + places), p + flags, (const char *)p + text,
		(const char *)p + bytes, p + bytes, p + size };
	return crc32_z(0, p + sizeof(*h), size - sizeof(*h)) == h->crc;
}

/* The next text; NULL where there is none. */
static const char *next_text(struct index *x)
{
	const char *text = x->text;
	const char *end = memchr(text, 0, (size_t)(x->text_end - text));

	if (end)
		x->text = end + 1;
	return end ? text : NULL;
}

/* Whether all folders, or the archive, are as they were. */
static bool is_current(struct index *x, const char *path, const struct gt_byte_stream *archive)
{
	struct stat st;

	if (archive)
		return x->h->stamps == 1 && !gt_byte_stream_stat(archive, &st) &&
		       same_stamp(&x->stamps[0], &st);
	for (uint64_t i = 0; i < x->h->stamps; i++) {
		const char *name = next_text(x);
		char *folder = name ? gt_asprintf(GT_ERR_IGNORED, "%s/%s", path, name) : NULL;
		bool same = folder && !stat(folder, &st) && same_stamp(&x->stamps[i], &st);

		free(folder);
		if (!same)
			return false;
	}
	return true;
}

static bool load_item(struct gt_listed *out, struct index *x, uint64_t i,
    const unsigned char *archive, size_t archive_size)
{
	const struct place *place = &x->places[i];
	int flags = x->flags[i];

	*out = (struct gt_listed){ .path = next_text(x), .folder = flags & IS_FOLDER };
	if (!out->path)
		return false;
	if (flags & IS_IN_ARCHIVE) {
		if (!archive || !x->h->placed || place->offset > archive_size ||
		    place->size > archive_size - place->offset)
			return false;
		out->bytes = archive + place->offset;
		out->size = place->size;
	} else if (flags & IS_COPIED) {
		if (!x->h->placed || place->size >= (size_t)(x->bytes_end - x->bytes))
			return false;
		out->bytes = x->bytes;
		out->size = place->size;
		x->bytes += place->size + 1;
	}
	return true;
}

/* Put the items of an index into the list, all or none. */
static bool load_items(struct gt_list *list, struct index *x, const struct gt_byte_stream *archive)
{
	size_t size = 0, count = list->count + (size_t)x->h->items;
	const unsigned char *bytes = archive ? gt_byte_stream_bytes(archive, &size) : NULL;
	void *grown = gt_reallocarray(list->items, count, sizeof(*list->items), GT_ERR_IGNORED);

	if (!grown)
		return false;
	list->items = grown;
	list->capacity = count;
	for (uint64_t i = 0; i < x->h->items; i++)
		if (!load_item(&list->items[list->count + i], x, i, bytes, size))
			return false;
	list->count = count;
	return true;
}

static bool load_index(struct gt_list *list, const char *key, const char *path,
    const struct gt_byte_stream *archive, const unsigned char *p, size_t size)
{
	struct index x;
	const char *about;

	if (!open_parts(&x, p, size))
		return false;
	about = next_text(&x);
	return about && !strcmp(about, key) && is_current(&x, path, archive) &&
	       load_items(list, &x, archive);
}

/* The file's bytes, in memory that the list keeps; NULL where that is not to be. */
static unsigned char *read_file(struct gt_list *list, const char *file, size_t *size)
{
	struct gt_mapping map;
	unsigned char *p = NULL;
	void *kept;

	if (gt_map(&map, file, GT_ERR_IGNORED))
		return NULL;
	*size = map.size;
	if (map.size && !gt_list_check_limit(list, map.size, GT_ERR_IGNORED) &&
	    !gt_grow(&list->indexes, list->index_count, &list->index_capacity, sizeof(kept),
	        GT_ERR_IGNORED))
		p = gt_calloc(map.size, 1, GT_ERR_IGNORED);
	if (p && gt_map_peek(&map, 0, p, map.size, GT_ERR_IGNORED)) {
		free(p);
		p = NULL;
	}
	gt_unmap(&map);
	return p;
}

/*
 * Lists of 10,000 items or more are stored in files, images/DIGEST.index below
 * gt_user_cache_path(). Such a file also has the stamp of the listed archive, or the stamps of all
 * listed folders. `archive` is the open uncompressed archive; it is NULL for a folder.
 *
 * gt_index_load() adds the stored items of a folder or archive to the list. It returns false if
 * there is no file, if the file is damaged or belongs to another path, or if a stamp has changed.
 *
 * gt_index_save() stores the items from index `first` on. `began_s` is the time when the listing
 * began, in seconds. Nothing is stored if a folder or the archive changed less than 2 seconds
 * before `began_s`: if it changes again, its stamp may stay the same, because the clock of a file
 * system may be coarse. If the file cannot be written, there is no error: the next run lists the
 * folder again.
 */
bool gt_index_load(struct gt_list *list, const char *path, const struct gt_byte_stream *archive)
{
	char *key = index_key(list, path, archive), *file = key ? file_of(key) : NULL;
	size_t size;
	unsigned char *p = file ? read_file(list, file, &size) : NULL;
	bool loaded = p && load_index(list, key, path, archive, p, size);

	if (loaded) {
		list->indexes[list->index_count++] = p;
		list->index_bytes += size;
	} else {
		free(p);
	}
	free(file);
	free(key);
	return loaded;
}

/* ---- saving ---- */

/* A file that is written: a failed write leaves its mark on the stream, which the commit reads. */
struct writer {
	struct gt_atomic_file file;
	struct header h;
};

static void put_index_bytes(struct writer *w, const void *p, size_t size)
{
	w->h.crc = (uint32_t)crc32_z(w->h.crc, p, size);
	w->h.size += size;
	fwrite(p, 1, size, w->file.stream);
}

static void put_text(struct writer *w, const char *text)
{
	put_index_bytes(w, text, strlen(text) + 1);
	w->h.text += strlen(text) + 1;
}

/* Where the content of an item is, as IS_.... */
static int content_place(
    struct place *out, const struct gt_listed *item, const unsigned char *archive, size_t size)
{
	*out = (struct place){ 0, item->size };
	if (!item->bytes)
		return 0;
	if (item->bytes < archive || item->bytes >= archive + size)
		return IS_COPIED;
	out->offset = (uint64_t)(item->bytes - archive);
	return IS_IN_ARCHIVE;
}

static void put_items(struct writer *w, const struct gt_list *list, size_t first,
    const unsigned char *archive, size_t size)
{
	struct place place;

	for (size_t i = first; archive && i < list->count; i++) {
		content_place(&place, &list->items[i], archive, size);
		put_index_bytes(w, &place, sizeof(place));
		w->h.placed++;
	}
	for (size_t i = first; i < list->count; i++) {
		const struct gt_listed *item = &list->items[i];
		unsigned char flags = (unsigned char)(content_place(&place, item, archive, size) |
		                                      (item->folder ? IS_FOLDER : 0));

		put_index_bytes(w, &flags, 1);
	}
	w->h.items = list->count - first;
}

static void put_contents(struct writer *w, const struct gt_list *list, size_t first,
    const unsigned char *archive, size_t size)
{
	struct place place;

	for (size_t i = first; i < list->count; i++) {
		const struct gt_listed *item = &list->items[i];

		if (content_place(&place, item, archive, size) != IS_COPIED)
			continue;
		put_index_bytes(w, item->bytes, item->size);
		put_index_bytes(w, "", 1);
		w->h.bytes += item->size + 1;
	}
}

static void put_all(struct writer *w, const struct gt_list *list, size_t first, const char *key,
    const struct gt_byte_stream *archive, const struct gt_stamp *own)
{
	const unsigned char *bytes = NULL;
	size_t size = 0;

	w->h.version = VERSION;
	w->h.size = sizeof(w->h);
	memcpy(w->h.magic, magic, sizeof(magic));
	fwrite(&w->h, sizeof(w->h), 1, w->file.stream);
	w->h.stamps = archive ? 1 : list->folder_count;
	if (archive) {
		bytes = gt_byte_stream_bytes(archive, &size);
		put_index_bytes(w, own, sizeof(*own));
	}
	for (size_t i = 0; !archive && i < list->folder_count; i++)
		put_index_bytes(w, &list->folders[i].stamp, sizeof(list->folders[i].stamp));
	put_items(w, list, first, bytes, size);
	put_text(w, key);
	for (size_t i = 0; !archive && i < list->folder_count; i++)
		put_text(w, list->folders[i].path);
	for (size_t i = first; i < list->count; i++)
		put_text(w, list->items[i].path);
	put_contents(w, list, first, bytes, size);
	if (!fseeko(w->file.stream, 0, SEEK_SET))
		fwrite(&w->h, sizeof(w->h), 1, w->file.stream);
}

/* A time shortly before the listing began may be that of a change after it, too: clocks of file
 * systems tick slowly. */
static bool is_recent(const struct gt_stamp *s, int64_t began_s)
{
	return s->mtime_s > began_s - RECENT_S || s->ctime_s > began_s - RECENT_S;
}

static bool is_settled(const struct gt_list *list, const struct gt_byte_stream *archive,
    struct gt_stamp *own, int64_t began_s)
{
	struct stat st;

	if (archive) {
		if (gt_byte_stream_stat(archive, &st))
			return false;
		*own = gt_stamp_of(&st);
		return !is_recent(own, began_s);
	}
	for (size_t i = 0; i < list->folder_count; i++)
		if (is_recent(&list->folders[i].stamp, began_s))
			return false;
	return list->folder_count > 0;
}

void gt_index_save(const struct gt_list *list, size_t first, const char *path,
    const struct gt_byte_stream *archive, int64_t began_s)
{
	struct gt_stamp own = { 0 };
	struct writer w = { 0 };
	char *key, *file;

	if (list->count - first < KEPT_FROM || !is_settled(list, archive, &own, began_s))
		return;
	key = index_key(list, path, archive);
	file = key ? file_of(key) : NULL;
	if (file && !gt_user_cache_make(file, GT_ERR_IGNORED) &&
	    !gt_atomic_open(&w.file, file, GT_ERR_IGNORED)) {
		w.file.no_sync = true; /* a power cut costs the time to list it again */
		put_all(&w, list, first, key, archive, &own);
		gt_atomic_commit(&w.file, GT_ERR_IGNORED);
	}
	free(file);
	free(key);
}
