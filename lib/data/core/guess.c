/* guess.c - guess the kind of data by the names of files, then by their first bytes. */
#include "lib/data/core/guess.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/text.h"

enum { PATH_SIZE = 300, MOST_NAMES = 10000, HEAD = 4096 };

/* A name, and the parts of the spec around the path. In a folder, the first row that one of its
 * names matches counts; `up`: the spec names the folder of the file. */
struct mark {
	const char *pattern, *kind, *ending;
	bool up;
};

static const struct mark files[] = {
	{ "*[-.]idx[13]-ubyte", "mnist", "", true },
	{ "*[-.]idx[13]-ubyte.gz", "mnist", "", true },
	{ "data_batch_[1-5]*", "cifar10", "", true },
	{ "test_batch*", "cifar10", "", true },
	{ "*.csv", "csv", "", false },
	{ "*.tsv", "csv", ",sep=tab", false },
	{ "*.tab", "csv", ",sep=tab", false },
	{ "*.npz", "npz", "", false },
	{ "*.npy", "npy", ",target=TARGETS.npy", false },
	{ "*.bin", "tokens", "", false },
	{ "*.tar", "images", "", false },
	{ "*.tar.gz", "images", "", false },
	{ "*.tgz", "images", "", false },
	{ "*.jsonl", "jsonl", "", false },
	{ "*.txt", "text", "", false },
	{ "*.text", "text", "", false },
	{ "*.md", "text", "", false },
	{ NULL, NULL, NULL, false },
};

static const struct mark folders[] = {
	{ "*[-.]idx[13]-ubyte", "mnist", "", false },
	{ "*[-.]idx[13]-ubyte.gz", "mnist", "", false },
	{ "data_batch_[1-5]*", "cifar10", "", false },
	{ "*.tar", "webdataset", "/*.tar", false },
	{ "*.bin", "tokens", "", false },
	{ "*.txt", "text", "", false },
	{ NULL, NULL, NULL, false },
};

static const struct mark images = { NULL, "images", "", false };
static const struct mark chat = { NULL, "chat", "", false };
static const struct mark pairs = { NULL, "pairs", "", false };
static const struct mark labelled = { NULL, "labelled", "", false };
static const struct mark text = { NULL, "text", "", false };
static const struct mark table = { NULL, "csv", "", false };
static const struct mark tabs = { NULL, "csv", ",sep=tab", false };

static const struct mark *match(const struct mark *marks, const char *name)
{
	while (marks->pattern && fnmatch(marks->pattern, name, FNM_CASEFOLD))
		marks++;
	return marks->pattern ? marks : NULL;
}

/* The mark of the folder's files; `images` where it has folders and at most a text beside them. */
static const struct mark *match_folder(const char *path)
{
	const struct mark *best = NULL, *found;
	const struct dirent *entry;
	int folder_count = 0;
	DIR *dir = opendir(path);

	for (int i = 0; dir && i < MOST_NAMES && (entry = readdir(dir)); i++) {
		struct stat st;

		if (*entry->d_name == '.' || fstatat(dirfd(dir), entry->d_name, &st, 0))
			continue;
		folder_count += S_ISDIR(st.st_mode);
		found = S_ISREG(st.st_mode) ? match(folders, entry->d_name) : NULL;
		if (found && (!best || found < best))
			best = found;
	}
	if (dir)
		closedir(dir);
	/* A text beside folders of classes is about them. */
	if (folder_count > 1 && (!best || !strcmp(best->kind, "text")))
		return &images;
	return best ? best : folder_count ? &images : NULL;
}

static size_t count_of(const char *line, char c)
{
	size_t n = 0;

	for (; *line && *line != '\n'; line++)
		n += *line == c;
	return n;
}

/* Two lines with as many commas, or tabs, are the beginning of a table. */
static const struct mark *match_text(const char *head)
{
	const char *second = strchr(head, '\n');

	if (second && count_of(head, ',') && count_of(head, ',') == count_of(second + 1, ','))
		return &table;
	if (second && count_of(head, '\t') && count_of(head, '\t') == count_of(second + 1, '\t'))
		return &tabs;
	return &text;
}

/* Read the first bytes of a file, and return how many. */
static ssize_t read_head(char head[HEAD + 1], const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, head, HEAD);

	if (fd >= 0)
		close(fd);
	head[n > 0 ? n : 0] = '\0';
	return n;
}

/* Return the mark of a .jsonl file whose rows are conversations, pairs of answers or texts with a
 * label, or `other`. */
static const struct mark *match_rows(const char *path, const struct mark *other)
{
	char head[HEAD + 1];

	if (read_head(head, path) <= 0)
		return other;
	if (strstr(head, "\"chosen\"") || strstr(head, "\"rejected\""))
		return &pairs;
	if (strstr(head, "\"messages\"") || strstr(head, "\"conversations\"") ||
	    strstr(head, "\"completion\""))
		return &chat;
	return strstr(head, "\"label\"") ? &labelled : other;
}

/* A file whose first bytes have no control characters is a text. */
static const struct mark *match_bytes(const char *path)
{
	char head[HEAD + 1];
	ssize_t n = read_head(head, path);

	return n > 0 && gt_text_is_plain(head, (size_t)n) ? match_text(head) : NULL;
}

/* Copy a path, with '\' before each comma; false if it is too long. */
static bool quote(char out[PATH_SIZE], const char *path, size_t length)
{
	size_t used = 0;

	for (size_t i = 0; i < length && used < PATH_SIZE - 2; i++) {
		if (path[i] == ',')
			out[used++] = '\\';
		out[used++] = path[i];
	}
	out[used] = '\0';
	return used < PATH_SIZE - 2;
}

bool gt_data_guess(char *out, size_t size, const char *path)
{
	const char *slash = strrchr(path, '/');
	const struct mark *mark = NULL;
	char quoted[PATH_SIZE];
	size_t length = strlen(path);
	struct stat st;

	if (!*path || stat(path, &st))
		return false;
	if (S_ISDIR(st.st_mode))
		mark = match_folder(path);
	else if (S_ISREG(st.st_mode))
		mark = match(files, slash ? slash + 1 : path);
	if (!mark && S_ISREG(st.st_mode))
		mark = match_bytes(path);
	if (mark && !strcmp(mark->kind, "jsonl"))
		mark = match_rows(path, mark);
	if (mark && mark->up)
		length = slash ? (size_t)(slash - path) : 0;
	if (!mark || !quote(quoted, path, length))
		return false;
	snprintf(
	    out, size, "%s:%s%s", mark->kind, mark->up && !length ? "." : quoted, mark->ending);
	return true;
}
