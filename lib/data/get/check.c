/* check.c - files of a set compared with their checksums. */
#include "lib/data/get/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/base16.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/mem.h"

enum { CHUNK_BYTES = 1 << 18, HEX_SIZE = 2 * SHA256_DIGEST_SIZE + 1 };

static int hash(char hex[HEX_SIZE], int fd, unsigned char *chunk, struct gt_err *err)
{
	unsigned char sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;
	off_t at = 0;

	sha256_init(&sha);
	for (;;) {
		ssize_t n = pread(fd, chunk, CHUNK_BYTES, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gt_err_sys(err, "cannot read");
		if (!n)
			break;
		sha256_update(&sha, (size_t)n, chunk);
		at += n;
	}
	sha256_digest(&sha, SHA256_DIGEST_SIZE, sum);
	base16_encode_update(hex, SHA256_DIGEST_SIZE, sum);
	hex[HEX_SIZE - 1] = '\0';
	return 0;
}

int gt_set_compare(bool *same, int fd, const struct gt_set_file *file, struct gt_err *err)
{
	unsigned char *chunk = gt_calloc(CHUNK_BYTES, 1, err);
	char hex[HEX_SIZE];
	int rc = GT_ENOMEM;

	*same = false;
	if (chunk)
		rc = file->sha256 ? hash(hex, fd, chunk, err) : 0;
	free(chunk);
	if (!rc)
		*same = !file->sha256 || !strcasecmp(hex, file->sha256);
	return rc;
}

static int fail_unpublished_file(const char *path, const char *what, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "'%s' is not the file that is published: %s", path, what);
	return gt_err_hint(err, "remove or rename it, or replace it with {force}");
}

int gt_set_check(bool *there, const char *path, const struct gt_set_file *file, struct gt_err *err)
{
	const struct gt_file_name name = { .path = path };
	struct stat st;
	char what[80];
	bool same;
	int fd, rc = gt_file_check(name, &st, there, err);

	if (rc || !*there)
		return rc;
	if (file->size_bytes && (uint64_t)st.st_size != file->size_bytes) {
		snprintf(what, sizeof(what), "%lld bytes, not %" PRIu64, (long long)st.st_size,
		    file->size_bytes);
		return fail_unpublished_file(path, what, err);
	}
	rc = gt_file_open(&fd, name, O_RDONLY, err);
	if (rc)
		return rc;
	rc = gt_set_compare(&same, fd, file, err);
	close(fd);
	if (rc)
		return gt_err_prefix(err, "'%s'", path);
	return same ? 0 : fail_unpublished_file(path, "another SHA-256", err);
}
