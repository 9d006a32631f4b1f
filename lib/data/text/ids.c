/* ids.c - the ids of a text's tokens, in memory or in the user's cache. */
#include "lib/data/text/ids.h"

#include <fcntl.h>
#include <nettle/base16.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "lib/base/clock.h"
#include "lib/base/progress.h"
#include "lib/base/text.h"
#include "lib/base/thread_pool.h"
#include "lib/base/user_cache.h"
#include "lib/data/core/source.h"

enum { KEPT_FROM = 1 << 20, BLOCK = 1 << 20, VERSION = 1 };

/* A file of ids; they follow. */
struct header {
	char magic[8];
	/* size: tokens of the vocabulary; crc: checksum of all ids */
	uint32_t version, width, size, crc;
	uint64_t count, repaired;
	unsigned char key[SHA256_DIGEST_SIZE];
};

static const char magic[8] = "GTIDS\r\n";

struct work {
	const struct gt_bpe *bpe;
	const struct gt_mapping *files;
	size_t file_count;
	const struct gt_data_request *request;
	struct gt_ids *out;
	uint64_t bytes; /* bytes of all files */
	unsigned char key[SHA256_DIGEST_SIZE];
	double started;
	struct gt_progress outer; /* progress of the caller, which tokenizing interrupts */
	int64_t done;             /* bytes of the files before this one */

	FILE *stream;    /* ids go there, */
	uint32_t crc;    /* and this is their sum, */
	size_t capacity; /* or to out->own, which has so many elements */
};

int gt_ids_width(int size)
{
	return size <= 1 << 8 ? 1 : size <= 1 << 16 ? 2 : 4;
}

/* ---- the key ---- */

struct digest {
	const struct gt_mapping *files;
	size_t *first; /* [files + 1]: number of each file's first block */
	unsigned char (*sums)[SHA256_DIGEST_SIZE]; /* [blocks] */
};

static int sum_block(void *self, size_t i, struct gt_err *err)
{
	const struct digest *d = self;
	struct sha256_ctx sha;
	size_t file = 0, at, left;

	(void)err;
	while (d->first[file + 1] <= i)
		file++;
	at = (i - d->first[file]) * BLOCK;
	left = d->files[file].size - at;
	sha256_init(&sha);
	sha256_update(&sha, left < BLOCK ? left : BLOCK, (const void *)(d->files[file].data + at));
	sha256_digest(&sha, SHA256_DIGEST_SIZE, d->sums[i]);
	return 0;
}

/* The digest of the digests of all blocks, the sizes of the files, and the tokenizer: all cores. */
static int find_key(struct work *w, struct gt_err *err)
{
	struct digest d = { .files = w->files };
	struct sha256_ctx sha;
	size_t blocks = 0;
	int rc;

	d.first = gt_calloc(w->file_count + 1, sizeof(*d.first), err);
	if (!d.first)
		return GT_ENOMEM;
	sha256_init(&sha);
	sha256_update(&sha, GT_BPE_DIGEST, (const void *)gt_bpe_digest(w->bpe));
	for (size_t i = 0; i < w->file_count; i++) {
		uint64_t size = w->files[i].size;

		sha256_update(&sha, sizeof(size), (const void *)&size);
		blocks += (w->files[i].size + BLOCK - 1) / BLOCK;
		d.first[i + 1] = blocks;
	}
	d.sums = gt_calloc(blocks, sizeof(*d.sums), err);
	rc = d.sums ? gt_thread_pool_run(0, blocks, sum_block, &d, err) : GT_ENOMEM;
	for (size_t i = 0; i < blocks && !rc; i++)
		sha256_update(&sha, sizeof(*d.sums), (const void *)d.sums[i]);
	sha256_digest(&sha, SHA256_DIGEST_SIZE, w->key);
	free(d.sums);
	free(d.first);
	return rc;
}

/* tokens/KEY.ids, yours; NULL: there is no cache. */
static char *path_of(const struct work *w)
{
	char name[8 + 2 * SHA256_DIGEST_SIZE + 8] = "tokens/";

	base16_encode_update(name + 7, SHA256_DIGEST_SIZE, w->key);
	strcat(name, ".ids");
	return gt_user_cache_path(name);
}

/* ---- tokenizing ---- */

static void narrow_ids(void *to, const int32_t *ids, size_t count, int width)
{
	if (width == 1)
		for (size_t i = 0; i < count; i++)
			((uint8_t *)to)[i] = (uint8_t)ids[i];
	else if (width == 2)
		for (size_t i = 0; i < count; i++)
			((uint16_t *)to)[i] = (uint16_t)ids[i];
	else
		memcpy(to, ids, count * sizeof(*ids));
}

/* A failed write leaves its mark on the stream, which the commit reads. */
static void write_ids(struct work *w, const int32_t *ids, size_t count)
{
	int32_t buffer[1024];
	size_t width = (size_t)w->out->width;

	for (size_t done = 0, n; done < count; done += n) {
		n = count - done < 1024 ? count - done : 1024;
		narrow_ids(buffer, ids + done, n, w->out->width);
		w->crc = (uint32_t)crc32_z(w->crc, (const Bytef *)buffer, n * width);
		fwrite(buffer, width, n, w->stream);
	}
}

static int keep_ids(struct work *w, const int32_t *ids, size_t count, struct gt_err *err)
{
	struct gt_ids *out = w->out;
	size_t wanted = (size_t)out->count + count, width = (size_t)out->width;

	if (wanted > w->capacity) {
		size_t capacity = wanted + wanted / 2;
		void *own;
		int rc = gt_data_check_memory(w->request, wanted * width, "the text", err);

		own = rc ? NULL : gt_reallocarray(out->own, capacity, width, err);
		if (!own)
			return GT_ENOMEM;
		out->own = own;
		w->capacity = capacity;
	}
	narrow_ids((char *)out->own + (size_t)out->count * width, ids, count, out->width);
	return 0;
}

static int put_ids(void *self, const int32_t *ids, size_t count, struct gt_err *err)
{
	struct work *w = self;
	int rc = 0;

	if (w->stream)
		write_ids(w, ids, count);
	else
		rc = keep_ids(w, ids, count, err);
	if (!rc)
		w->out->count += (int64_t)count;
	return rc;
}

static void show_encoding(void *self, int64_t done, int64_t total)
{
	const struct work *w = self;
	struct gt_log *log = w->request->log;

	(void)total;
	if (log)
		gt_progress_update(log->progress, (w->done + done) >> 20, NULL);
}

static void begin_showing(struct work *w)
{
	struct gt_log *log = w->request->log;

	w->started = gt_clock_s();
	if (!log || !log->progress)
		return;
	w->outer = gt_progress_enter(log->progress, "tokenizing, MiB", (int64_t)(w->bytes >> 20));
}

/* Small texts take no time worth a line. */
static void end_showing(const struct work *w, const char *path)
{
	char count[GT_TEXT_SIZE], bytes[GT_TEXT_SIZE];
	struct gt_log *log = w->request->log;

	if (log)
		gt_progress_leave(log->progress, &w->outer);
	if (log && w->bytes >= KEPT_FROM)
		gt_log_info(log, "tokenized %s into %s tokens in %.1f s%s%s",
		    gt_text_bytes(bytes, w->bytes), gt_text_count(count, (double)w->out->count),
		    gt_clock_s() - w->started, path ? "; kept in " : "", path ? path : "");
}

static int tokenize(struct work *w, const char *path, struct gt_err *err)
{
	int rc = 0;

	w->out->count = w->out->repaired = w->done = 0;
	begin_showing(w);
	for (size_t i = 0; i < w->file_count && !rc; i++) {
		const struct gt_mapping *f = &w->files[i];
		int64_t repaired = 0;

		rc = gt_bpe_encode(w->bpe, f->data ? (const char *)f->data : "", f->size, put_ids,
		    show_encoding, w, &repaired, err);
		w->out->repaired += repaired;
		w->done += (int64_t)f->size;
	}
	end_showing(w, path);
	return rc;
}

/* ---- the file ---- */

/* Ids beyond the vocabulary would be read by kernels. */
static bool check_ids(const struct gt_ids *ids, int size)
{
	int64_t bad = 0;

	for (int64_t i = 0; i < ids->count; i++) {
		int32_t id = ids->width == 1   ? ((const uint8_t *)ids->ids)[i]
		             : ids->width == 2 ? ((const uint16_t *)ids->ids)[i]
		                               : ((const int32_t *)ids->ids)[i];

		bad += id < 0 || id >= size;
	}
	return !bad;
}

static bool check_ids_file(struct work *w, const struct gt_mapping *map)
{
	struct gt_ids *out = w->out;
	struct header h;
	uint32_t crc;

	if (map->size < sizeof(h))
		return false;
	memcpy(&h, map->data, sizeof(h));
	if (memcmp(h.magic, magic, sizeof(magic)) != 0 || h.version != VERSION ||
	    h.width != (uint32_t)out->width || memcmp(h.key, w->key, sizeof(h.key)) != 0 ||
	    h.size != (uint32_t)gt_bpe_size(w->bpe) ||
	    h.count != (map->size - sizeof(h)) / h.width || (map->size - sizeof(h)) % h.width)
		return false;
	crc = (uint32_t)crc32_z(0, map->data + sizeof(h), map->size - sizeof(h));
	out->count = (int64_t)h.count;
	out->repaired = (int64_t)h.repaired;
	out->ids = map->data + sizeof(h);
	return crc == h.crc && check_ids(out, gt_bpe_size(w->bpe));
}

/* Map the file if it is whole. */
static bool find_file(struct work *w, const char *path)
{
	struct gt_mapping map = { .fd = -1 };
	bool found = gt_file_exists((struct gt_file_name){ .path = path }) &&
	             !gt_map(&map, path, GT_ERR_IGNORED);

	if (found && !check_ids_file(w, &map)) {
		gt_unmap(&map);
		found = false;
	}
	if (found)
		w->out->map = map;
	else
		w->out->count = 0;
	return found;
}

static int write_file(
    struct work *w, const char *path, struct gt_err *cache_error, struct gt_err *err)
{
	struct header h = { .version = VERSION,
		.width = (uint32_t)w->out->width,
		.size = (uint32_t)gt_bpe_size(w->bpe) };
	struct gt_atomic_file f;
	int rc;

	if (gt_atomic_open(&f, path, cache_error))
		return 0;
	f.no_sync = true; /* a power cut costs the time to write it again */
	w->stream = f.stream;
	w->crc = (uint32_t)crc32_z(0, NULL, 0);
	fwrite(&h, sizeof(h), 1, f.stream);
	rc = tokenize(w, path, err);
	w->stream = NULL;
	if (rc) {
		gt_atomic_abandon(&f);
		return rc;
	}
	memcpy(h.magic, magic, sizeof(magic));
	memcpy(h.key, w->key, sizeof(h.key));
	h.count = (uint64_t)w->out->count;
	h.repaired = (uint64_t)w->out->repaired;
	h.crc = w->crc;
	if (!fseeko(f.stream, 0, SEEK_SET))
		fwrite(&h, sizeof(h), 1, f.stream);
	gt_atomic_commit(&f, cache_error);
	return 0;
}

/* The rank with a log tokenizes, because it shows the progress, so the other ranks of a host let it
 * begin. They wait only for a moment, because that rank may be on another host. */
static void let_others_begin(const struct work *w, const char *path)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	char *lock = w->request->log ? NULL : gt_asprintf(GT_ERR_IGNORED, "%s.lock", path);

	for (int i = 0; lock && i < 50; i++) {
		if (gt_file_exists((struct gt_file_name){ .path = lock }) ||
		    gt_file_exists((struct gt_file_name){ .path = path }))
			break;
		nanosleep(&pause, NULL);
	}
	free(lock);
}

/* Wait for the process that writes the same file. The lock goes with the descriptor. */
static int lock_file(const char *path)
{
	char *name = gt_asprintf(GT_ERR_IGNORED, "%s.lock", path);
	int fd =
	    name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666) : -1;

	if (fd >= 0)
		flock(fd, LOCK_EX); /* where there are no locks, each writes */
	free(name);
	return fd;
}

static void unlock_file(const char *path, int fd)
{
	char *name = gt_asprintf(GT_ERR_IGNORED, "%s.lock", path);

	if (fd < 0)
		return;
	/* A process that waits for it looks for the file first. */
	if (name)
		unlink(name);
	close(fd);
	free(name);
}

static int open_cached(
    struct work *w, const char *path, struct gt_err *cache_error, struct gt_err *err)
{
	int fd, rc = 0;

	if (find_file(w, path) || gt_user_cache_make(path, cache_error))
		return 0;
	let_others_begin(w, path);
	fd = lock_file(path);
	if (!find_file(w, path)) {
		rc = write_file(w, path, cache_error, err);
		if (!rc && !cache_error->code && !find_file(w, path))
			gt_err_set(cache_error, GT_EIO, "'%s' was changed at once", path);
	}
	unlock_file(path, fd);
	return rc;
}

/* ---- both ---- */

static int open_ids(struct work *w, struct gt_err *err)
{
	struct gt_err cache_error = GT_ERR_INIT;
	char *path = NULL;
	int rc = 0;

	if (w->bytes >= KEPT_FROM) {
		rc = find_key(w, err);
		path = rc ? NULL : path_of(w);
	}
	if (!rc && path)
		rc = open_cached(w, path, &cache_error, err);
	free(path);
	if (rc || w->out->map.data)
		return rc;
	rc = tokenize(w, NULL, err);
	w->out->ids = w->out->own;
	if (!rc && cache_error.code) {
		w->out->cache_error = gt_strdup(cache_error.text, err);
		rc = w->out->cache_error ? 0 : GT_ENOMEM;
	}
	return rc;
}

/*
 * Tokenize files [count], one after the other. Each file is a separate text.
 *
 * If all files together have 1 MiB or more, their ids are stored in a file in the user's cache, and
 * this file is mapped into memory. The file is tokens/KEY.ids below gt_user_cache_path(). KEY is a
 * digest of the texts and the tokenizer. If several processes need the same ids, the first one
 * tokenizes, and the others wait. A cache file that is damaged or belongs to another text is
 * written again. If the user has no cache folder, or the cache file cannot be written, the ids stay
 * in memory, where they may take at most request->memory_bytes.
 *
 * request->log shows the progress; only rank 0 has a log. Errors: GT_ENOMEM, and the errors of
 * gt_bpe_encode().
 */
int gt_ids_open(struct gt_ids *out, const struct gt_bpe *bpe, const struct gt_mapping *files,
    size_t count, const struct gt_data_request *request, struct gt_err *err)
{
	struct work w = {
		.bpe = bpe, .files = files, .file_count = count, .request = request, .out = out
	};
	int rc;

	*out = (struct gt_ids){ .width = gt_ids_width(gt_bpe_size(bpe)), .map.fd = -1 };
	for (size_t i = 0; i < count; i++)
		w.bytes += files[i].size;
	rc = open_ids(&w, err);
	if (rc)
		gt_ids_release(out);
	return rc;
}

void gt_ids_release(struct gt_ids *ids)
{
	gt_unmap(&ids->map);
	free(ids->own);
	free(ids->cache_error);
	*ids = (struct gt_ids){ .map.fd = -1 };
}
