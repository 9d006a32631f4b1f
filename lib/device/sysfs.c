/* sysfs.c - small files under /proc and /sys. */
#include "lib/device/sysfs.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, ID_MAX = 65535 };

static FILE *open_list(const char *root, const char *format, va_list ap)
{
	char path[PATH_BYTES];
	size_t used = strlen(root);
	int n;

	if (used >= sizeof(path))
		return NULL;
	memcpy(path, root, used);
	n = vsnprintf(path + used, sizeof(path) - used, format, ap);
	return n < 0 || (size_t)n >= sizeof(path) - used ? NULL : fopen(path, "re");
}

FILE *gt_sysfs_open(const char *root, const char *format, ...)
{
	va_list ap;
	FILE *f;

	va_start(ap, format);
	f = open_list(root, format, ap);
	va_end(ap);
	return f;
}

bool gt_sysfs_line(char *line, size_t size, const char *root, const char *format, ...)
{
	va_list ap;
	bool got;
	FILE *f;

	va_start(ap, format);
	f = open_list(root, format, ap);
	va_end(ap);
	if (!f)
		return false;
	got = fgets(line, (int)size, f) != NULL;
	fclose(f);
	if (got)
		line[strcspn(line, "\n")] = '\0';
	return got;
}

char *gt_sysfs_value(char *line, const char *key)
{
	size_t n = strlen(key);
	char *value;

	if (strncmp(line, key, n) != 0)
		return NULL;
	value = line + n + strspn(line + n, " \t");
	if (*value != ':')
		return NULL;
	value += 1 + strspn(value + 1, " \t");
	value[strcspn(value, "\n")] = '\0';
	return value;
}

size_t gt_sysfs_list(const char *list, void (*visit)(int id, void *context), void *context)
{
	size_t count = 0;

	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (last < first || last > ID_MAX)
			break;
		for (unsigned long id = first; visit && id <= last; id++)
			visit((int)id, context);
		count += last - first + 1;
		if (*end != ',')
			break;
		list = end + 1;
	}
	return count;
}
