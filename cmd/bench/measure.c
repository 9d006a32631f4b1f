/* measure.c - parse the options of device benchmarks: sizes, devices, types; print a rate. */
#include "cmd/bench/measure.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/text.h"

static const int64_t most_bytes = (int64_t)1 << 40;

int gt_bench_read_sizes(int64_t *sizes, int *count, const char *text, struct gt_err *err)
{
	const char *dots = strstr(text, "..");
	char first[32];
	int64_t from, to;

	snprintf(first, sizeof(first), "%.*s", dots ? (int)(dots - text) : 31, text);
	if (!gt_text_parse_size(&from, first) || !gt_text_parse_size(&to, dots ? dots + 2 : text) ||
	    from < 8 || to < from) {
		gt_err_set(err, GT_EINVAL,
		    "--sizes: '%s' is neither a size of 8 bytes or more nor a range FROM..TO",
		    text);
		return gt_err_hint(err, "as in --sizes 1K..256M; K, M and G are the units");
	}
	if (to > most_bytes)
		return gt_err_set(err, GT_EINVAL, "--sizes: '%s' is more than 1024G", text);
	*count = 0;
	for (int64_t size = from; size <= to && *count < GT_BENCH_MAX_SIZES; size *= 2)
		sizes[(*count)++] = size;
	return 0;
}

int gt_bench_memory_hint(int rc, struct gt_err *err)
{
	return rc == GT_ENOMEM ? gt_err_hint(err, "use smaller --sizes") : rc;
}

int gt_bench_read_devices(
    struct gt_device_name **out, size_t *count, const char *list, struct gt_err *err)
{
	int rc = gt_device_names_read(out, count, list, gt_backends, err);

	return rc ? gt_err_prefix(err, "--device %s", list) : 0;
}

static int find_listed_word(const char *word, size_t length, const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (strlen(words[i]) == length && !memcmp(words[i], word, length))
			return i;
	return -1;
}

static int fail_word(const char *word, size_t length, bool twice, const char *const *words,
    const char *name, struct gt_err *err)
{
	char all[128] = "";

	for (int i = 0; words[i]; i++)
		snprintf(
		    all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "", words[i]);
	gt_err_set(err, GT_EINVAL, "--%s: '%.*s' %s", name, length < 60 ? (int)length : 60, word,
	    twice ? "is listed twice" : "is not a valid value");
	return gt_err_hint(err, "use one or more of %s, separated by commas", all);
}

int gt_bench_read_words(int *out, int *count, const char *list, const char *const *words,
    const char *name, struct gt_err *err)
{
	const char *end;

	*count = 0;
	for (const char *word = list;; word = end + 1) {
		size_t length = strcspn(word, ",");
		int found = find_listed_word(word, length, words);
		bool twice = false;

		end = word + length;
		for (int i = 0; i < *count; i++)
			twice = twice || out[i] == found;
		if (found < 0 || twice)
			return fail_word(word, length, twice, words, name, err);
		out[(*count)++] = found;
		if (!*end)
			return 0;
	}
}

int gt_bench_read_numbers(int64_t out[GT_BENCH_NUMBERS], int *count, const char *list,
    const char *name, int64_t least, int64_t most, struct gt_err *err)
{
	*count = 0;
	for (const char *word = list;; word++) {
		size_t length = strcspn(word, ",");
		char text[16];
		int64_t n = 0;

		snprintf(text, sizeof(text), "%.*s", (int)(length < 15 ? length : 15), word);
		if (!gt_text_parse_size(&n, text) || n < least || n > most) {
			gt_err_set(err, GT_EINVAL, "--%s: '%s' is not a number from %lld to %lld",
			    name, text, (long long)least, (long long)most);
			return gt_err_hint(err, "as in --%s 1,2,4", name);
		}
		for (int i = 0; i < *count; i++)
			if (out[i] == n)
				return gt_err_set(
				    err, GT_EINVAL, "--%s: '%s' is listed twice", name, text);
		if (*count == GT_BENCH_NUMBERS)
			return gt_err_set(err, GT_EINVAL, "--%s has more than %d numbers", name,
			    GT_BENCH_NUMBERS);
		out[(*count)++] = n;
		word += length;
		if (!*word)
			return 0;
	}
}

const char *gt_bench_device(char buffer[GT_DEVICE_NAME_SIZE], const struct gt_device_name *name)
{
	if (name->backend->count() == 1 && name->backend->host_memory)
		snprintf(buffer, GT_DEVICE_NAME_SIZE, "%s", name->backend->name);
	else
		snprintf(buffer, GT_DEVICE_NAME_SIZE, "%s:%d", name->backend->name, name->index);
	return buffer;
}

void gt_bench_rate(char *cell, size_t size, double per_s, double unit)
{
	snprintf(cell, size, per_s < unit ? "%#.3g" : "%.2f", per_s / unit);
}
