/* choices.c - the file of the fastest algorithms, and its entries in memory. */
#include "kernels/cuda/library/choices.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/index.h"
#include "lib/base/mem.h"
#include "lib/base/user_cache.h"

/*
 * Choices are kept in text files: gtrain/NAME in $XDG_CACHE_HOME, or in ~/.cache. There is one file
 * for each combination of library version, CUDA driver version and GPU model (fastest.c). Each line
 * holds one choice: a key, which describes the operation, and the words of the choice in
 * hexadecimal. The file only saves time. Lines that cannot be parsed are ignored. If the file
 * cannot be read or written, no error is reported, and each process measures for itself.
 *
 * gt_choices_begin() locks out the other threads of this process, and gt_choices_read() locks out
 * other processes that use the same file. gt_choices_end() releases both locks. So one thread
 * measures at a time, and the others find its choices in the file. Ranks whose GPUs are of the same
 * type, such as H100, thus make the same choices. A process waits at most 10 seconds for the lock
 * of the file, once: after that it measures without the lock whenever another process holds it.
 *
 * A NAME has at most GT_CHOICE_NAME - 1 characters. A key has at most GT_CHOICE_KEY - 1 characters
 * and no spaces. The caller must check that the library still offers the algorithm that
 * gt_choices_find() returns.
 */

enum {
	WORDS = sizeof(struct gt_choice) / sizeof(uint64_t),
	LINE = 512,
	LINES = 20000, /* lines of a file that are read */
	/* For the lock of another process, which may hang. A process that measures gives the lock
	 * back for moments only, which tries at longer intervals would miss. */
	TRIES = 10000,
	TRY_MS = 1,
	DEVICES = 64
};

struct choice {
	char name[GT_CHOICE_NAME], key[GT_CHOICE_KEY];
	struct gt_choice choice;
	struct choice *next;
};

/* A file, and its state when all its lines were in memory. */
struct file {
	char name[GT_CHOICE_NAME];
	struct stat seen;
	struct file *next;
};

static int compare_choices(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : strcmp(x->key, y->key);
}

/* The lock protects all members. The choices are freed with the process. gt_choices_read() puts
 * each line of a file into the index. The file may have thousands of lines, and for each operation
 * that it lacks it is read again if another process has changed it. */
static struct {
	pthread_mutex_t lock;
	struct choice *first;
	struct file *files;
	bool waited; /* this process has waited for a lock in vain */
	char gpus[DEVICES][GT_CHOICE_GPU];
	struct gt_index index;
	int fd; /* the locked file; -1: no file is locked */
} choices = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .index = { .compare = compare_choices }, .fd = -1
};

void gt_choices_begin(void)
{
	pthread_mutex_lock(&choices.lock);
}

void gt_choices_end(void)
{
	if (choices.fd >= 0)
		close(choices.fd);
	choices.fd = -1;
	pthread_mutex_unlock(&choices.lock);
}

static struct choice *find_choice(const char *name, const char *key)
{
	struct choice like;

	snprintf(like.name, sizeof(like.name), "%s", name);
	snprintf(like.key, sizeof(like.key), "%s", key);
	return gt_index_find(&choices.index, &like);
}

bool gt_choices_find(const char *name, const char *key, struct gt_choice *out)
{
	const struct choice *c = find_choice(name, key);

	if (c)
		*out = c->choice;
	return c;
}

static void put_choice(const char *name, const char *key, const struct gt_choice *choice)
{
	struct choice *c = find_choice(name, key);
	struct gt_err ignored = GT_ERR_INIT;

	if (!c) {
		c = gt_calloc(1, sizeof(*c), &ignored);
		if (!c)
			return;
		snprintf(c->name, sizeof(c->name), "%s", name);
		snprintf(c->key, sizeof(c->key), "%s", key);
		if (!gt_index_add(&choices.index, c, &ignored)) {
			free(c);
			return;
		}
		c->next = choices.first;
		choices.first = c;
	}
	c->choice = *choice;
}

char *gt_choices_gpu(int index)
{
	return index < DEVICES ? choices.gpus[index] : NULL;
}

/* ---- the file ---- */

static struct file *find_file(const char *name)
{
	struct file *f = choices.files;

	while (f && strcmp(f->name, name) != 0)
		f = f->next;
	return f;
}

/* Each change is a rename, but the new file may have the number of one that was removed before. */
static bool is_known(const char *name, const struct stat *st)
{
	const struct file *f = find_file(name);

	return f && f->seen.st_dev == st->st_dev && f->seen.st_ino == st->st_ino &&
	       f->seen.st_size == st->st_size && f->seen.st_ctim.tv_sec == st->st_ctim.tv_sec &&
	       f->seen.st_ctim.tv_nsec == st->st_ctim.tv_nsec;
}

static void remember(const char *name, const struct stat *st)
{
	struct file *f = find_file(name);

	if (!f) {
		f = gt_calloc(1, sizeof(*f), GT_ERR_IGNORED);
		if (!f)
			return;
		snprintf(f->name, sizeof(f->name), "%s", name);
		f->next = choices.files;
		choices.files = f;
	}
	f->seen = *st;
}

/* The path of a file in the user's cache, yours to free(); NULL: there is no such folder. */
static char *path_of(const char *name, const char *suffix)
{
	char *whole = gt_asprintf(GT_ERR_IGNORED, "%s%s", name, suffix);
	char *path = whole ? gt_user_cache_path(whole) : NULL;

	free(whole);
	return path;
}

/* The lock goes with the descriptor, so a process that is killed leaves it. */
static void lock_file(const char *name)
{
	const struct timespec pause = { 0, TRY_MS * 1000000L };
	char *path = path_of(name, ".lock");

	if (!path || choices.fd >= 0)
		goto out;
	gt_user_cache_make(path, GT_ERR_IGNORED);
	choices.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
	/* The lock is a file of its own, because the file of choices is replaced by a rename, and a
	 * lock on the old file would not exclude readers of the new one. After 10 s this process
	 * goes on without the lock: it then only measures again. Later it tries a lock once. */
	for (int i = 0; choices.fd >= 0; i++) {
		if (!flock(choices.fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
			break;
		choices.waited |= i == TRIES;
		if (choices.waited)
			break;
		nanosleep(&pause, NULL);
	}
out:
	free(path);
}

/* KEY HEX, where HEX has 16 digits for each word. */
static bool parse_choice_line(const char *line, char key[GT_CHOICE_KEY], struct gt_choice *out)
{
	size_t length = strcspn(line, " ");
	const char *hex = line + length + 1;

	/* The words are passed to the library as an algorithm, so anything but the exact form is
	 * ignored. The caller compares them with the algorithms that the library offers. */
	if (!length || length >= GT_CHOICE_KEY || line[length] != ' ' || line[0] == '#' ||
	    strspn(hex, "0123456789abcdef") != (size_t)WORDS * 16 ||
	    strcmp(hex + (size_t)WORDS * 16, "\n") != 0)
		return false;
	memcpy(key, line, length);
	key[length] = '\0';
	for (int i = 0; i < WORDS; i++) {
		char word[17] = { 0 };

		memcpy(word, hex + (size_t)i * 16, 16);
		out->words[i] = strtoull(word, NULL, 16);
	}
	return true;
}

static void read_lines(const char *name, FILE *f)
{
	char line[LINE], key[GT_CHOICE_KEY];
	struct gt_choice choice;

	for (int i = 0; i < LINES && fgets(line, sizeof(line), f); i++)
		if (parse_choice_line(line, key, &choice))
			put_choice(name, key, &choice);
}

void gt_choices_read(const char *name)
{
	struct gt_err ignored = GT_ERR_INIT;
	char *path = path_of(name, "");
	struct stat st;
	FILE *f = NULL;
	int fd = -1;

	lock_file(name);
	if (path && !gt_file_open(&fd, (struct gt_file_name){ .path = path }, O_RDONLY, &ignored) &&
	    !fstat(fd, &st) && !is_known(name, &st))
		f = fdopen(fd, "r");
	if (f) {
		read_lines(name, f);
		remember(name, &st);
		fclose(f);
	} else if (fd >= 0) {
		close(fd);
	}
	free(path);
}

static void write_lines(const char *name, FILE *f)
{
	fprintf(f, "# gtrain: the fastest way to do each operation of a GPU; may be deleted\n");
	for (const struct choice *c = choices.first; c; c = c->next) {
		if (strcmp(c->name, name) != 0)
			continue;
		fprintf(f, "%s ", c->key);
		for (int i = 0; i < WORDS; i++)
			fprintf(f, "%016" PRIx64, c->choice.words[i]);
		fputc('\n', f);
	}
}

void gt_choices_add(const char *name, const char *key, const struct gt_choice *choice)
{
	struct gt_atomic_file f = { 0 };
	struct gt_err ignored = GT_ERR_INIT;
	char *path = path_of(name, "");
	struct stat st, own;

	/* Each new choice rewrites the whole file. So a run that is killed keeps the choices made
	 * before. */
	put_choice(name, key, choice);
	if (path && !gt_atomic_open(&f, path, &ignored)) {
		/* After a power cut the file may be empty: then the choices are measured again. */
		f.no_sync = true;
		write_lines(name, f.stream);
		/* Without the lock, another process may have replaced this file by its own. */
		if (!fstat(fileno(f.stream), &own) && !gt_atomic_commit(&f, &ignored) &&
		    !stat(path, &st) && st.st_ino == own.st_ino && st.st_dev == own.st_dev)
			remember(name, &st);
	}
	free(path);
}
