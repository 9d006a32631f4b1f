/* fuzz_race.c - fuzz target: a checkpoint that another process writes to while it is used. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/tools/verify.h"
#include "tests/fuzz/fuzz.h"

/*
 * The input: a byte for the work, a byte for the number of flips, FLIP_BYTES for each, the file. A
 * flip says behind which read of the file it comes, where, and which bits change. So a part that
 * is read twice may be two, and the mapping differs from every copy made before.
 */
enum { FLIPS_MOST = 16, FLIP_BYTES = 4, WORKS = 4 };

static struct {
	const unsigned char *flips;
	size_t count, size; /* of flips; of the file */
	unsigned reads;
	int fd; /* of the file, to write to */
} race = { .fd = -1 };

static void flip(const unsigned char *f)
{
	off_t at = (off_t)((f[1] | (size_t)f[2] << 8) % race.size);
	unsigned char c = 0;

	if (syscall(SYS_pread64, race.fd, &c, 1, at) != 1)
		return; /* the work has cut the file */
	c ^= f[3];
	fuzz_require(pwrite(race.fd, &c, 1, at) == 1);
}

/* Goes before the C library's. */
ssize_t pread(int fd, void *out, size_t size, off_t at)
{
	ssize_t n;

	memset(out, 0, size); /* a sanitizer sees whether there is room, unlike the kernel */
	n = (ssize_t)syscall(SYS_pread64, fd, out, size, at);
	race.reads++;
	for (size_t i = 0; race.fd >= 0 && i < race.count; i++)
		if (race.flips[FLIP_BYTES * i] == race.reads % 256)
			flip(race.flips + FLIP_BYTES * i);
	return n;
}

static int open_and_use(const char *path, struct gt_err *err)
{
	struct gt_ckpt *ckpt;
	int rc = gt_ckpt_open(&ckpt, path, err);

	if (rc)
		return rc;
	fuzz_use(gt_ckpt_root(ckpt));
	fuzz_commands(ckpt);
	gt_ckpt_close(ckpt);
	return 0;
}

static int edit(const char *path, struct gt_err *err)
{
	static const struct gt_edit_request add = { .kind = GT_EDIT_ADD };
	const struct gt_edit_target target = { .input = path, .no_sync = true };
	struct gt_edit change = { 0 };
	struct gt_ckpt *ckpt;
	int rc = gt_edit_open(&ckpt, path, 0, err);

	if (!rc)
		rc = gt_edit_compute(&change, ckpt, &add, err);
	if (!rc)
		rc = gt_edit_apply(ckpt, &change, &target, NULL, err);
	gt_edit_release(&change);
	gt_ckpt_close(ckpt);
	return rc;
}

static int verify(const char *path, struct gt_err *err)
{
	struct gt_verify v;
	int rc = gt_verify(&v, path, 1, NULL, err);

	if (!rc)
		gt_verify_release(&v);
	return rc;
}

static int repair(const char *path, struct gt_err *err)
{
	struct gt_repair r;

	return gt_repair(&r, path, 0, err);
}

void fuzz_race(const unsigned char *bytes, size_t size)
{
	static int (*const works[WORKS])(
	    const char *, struct gt_err *) = { open_and_use, edit, verify, repair };
	struct gt_err err = GT_ERR_INIT;
	char path[64];
	size_t count, head;
	int rc;

	if (size < 2)
		return;
	count = bytes[1] % (FLIPS_MOST + 1);
	head = 2 + FLIP_BYTES * count;
	if (head >= size)
		return;
	snprintf(path, sizeof(path), "/tmp/gtrain-fuzz-race-%ld", (long)getpid());
	race.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	fuzz_require(race.fd >= 0);
	fuzz_require(write(race.fd, bytes + head, size - head) == (ssize_t)(size - head));
	race.flips = bytes + 2;
	race.count = count;
	race.size = size - head;
	race.reads = 0;
	rc = works[bytes[0] % WORKS](path, &err);
	if (rc)
		fuzz_check_error(rc, &err);
	close(race.fd);
	race.fd = -1;
	unlink(path);
}
