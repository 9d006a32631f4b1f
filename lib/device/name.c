/* name.c - device names as PyTorch writes them. */
#include "lib/device/name.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

static const char spellings[] =
    "a device is cpu, cuda or cuda:N; a list is cuda:0,cuda:2 or cuda:0,2";

/* A decimal number of `length` characters without sign or leading zeros; -1 if it is none. */
static int parse_index(const char *s, size_t length)
{
	int n = 0;

	if (length == 0 || (s[0] == '0' && length > 1))
		return -1;
	for (size_t i = 0; i < length; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		n = 10 * n + (s[i] - '0');
		if (n > GT_DEVICE_INDEX_MAX)
			return -1;
	}
	return n;
}

static bool is_word(const char *s, size_t length, const char *word)
{
	return length == strlen(word) && !memcmp(s, word, length);
}

static int refuse(const char *s, size_t length, struct gt_err *err)
{
	int shown = length < 60 ? (int)length : 60;

	if (length == 0)
		gt_err_set(err, GT_EINVAL, "empty device name");
	else
		gt_err_set(err, GT_EINVAL, "'%.*s' is not a device", shown, s);
	gt_err_hint(err, "%s", spellings);
	return GT_EINVAL;
}

/* Parse s[0..length); `previous` lends its type to a bare number and may be NULL. */
static int parse_element(struct gt_device_name *out, const char *s, size_t length,
    const struct gt_device_name *previous, struct gt_err *err)
{
	*out = (struct gt_device_name){ .type = GT_DEVICE_CPU };
	if (is_word(s, length, "cpu"))
		return 0;
	out->type = GT_DEVICE_CUDA;
	if (is_word(s, length, "cuda"))
		return 0;
	if (length > 5 && !memcmp(s, "cuda:", 5))
		out->index = parse_index(s + 5, length - 5);
	else if (previous && previous->type == GT_DEVICE_CUDA)
		out->index = parse_index(s, length);
	else
		out->index = -1;
	if (out->index >= 0)
		return 0;
	*out = (struct gt_device_name){ .type = GT_DEVICE_CPU };
	return refuse(s, length, err);
}

/* A new element must be none of the `count` before it, and of their type. */
static int check_element(const struct gt_device_name *list, size_t count, struct gt_err *err)
{
	const struct gt_device_name *new = &list[count];
	char name[GT_DEVICE_NAME_SIZE];

	for (size_t i = 0; i < count; i++) {
		if (list[i].type != new->type) {
			gt_err_set(err, GT_EINVAL, "the CPU and GPUs in one list of devices");
			return gt_err_hint(err, "use {device} cpu, or GPUs alone: cuda:0,1");
		}
		if (list[i].index == new->index) {
			gt_err_set(err, GT_EINVAL, "device '%s' is listed twice",
			    gt_device_name_format(name, new));
			return gt_err_hint(err, "for several ranks on one device use {nproc}");
		}
	}
	return 0;
}

int gt_device_name_parse(struct gt_device_name *out, const char *text, struct gt_err *err)
{
	return parse_element(out, text, strlen(text), NULL, err);
}

int gt_device_name_parse_list(
    struct gt_device_name **out, size_t *count, const char *text, struct gt_err *err)
{
	struct gt_device_name *list = NULL;
	size_t n = 0, capacity = 0;
	int rc = 0;

	*out = NULL;
	*count = 0;
	for (const char *s = text; !rc; s++) {
		size_t length = strcspn(s, ",");

		rc = gt_grow(&list, n, &capacity, sizeof(*list), err);
		if (!rc)
			rc = parse_element(&list[n], s, length, n ? &list[n - 1] : NULL, err);
		if (!rc)
			rc = check_element(list, n, err);
		n++;
		s += length;
		if (*s == '\0')
			break;
	}
	if (rc) {
		free(list);
		return rc;
	}
	*out = list;
	*count = n;
	return 0;
}

const char *gt_device_name_format(
    char buffer[GT_DEVICE_NAME_SIZE], const struct gt_device_name *name)
{
	if (name->type == GT_DEVICE_CPU)
		snprintf(buffer, GT_DEVICE_NAME_SIZE, "cpu");
	else
		snprintf(buffer, GT_DEVICE_NAME_SIZE, "cuda:%d", name->index);
	return buffer;
}
