/* visible.c - which GPU is cuda:0. */
#include "lib/device/visible.h"

#include <stdio.h>
#include <string.h>

enum { NOT_HERE = -1, AMBIGUOUS = -2 };

/* An entry of the list, without a zero byte at its end. */
struct entry {
	const char *text;
	size_t length;
};

static bool begins(struct entry entry, const char *prefix)
{
	return entry.length >= strlen(prefix) && !memcmp(entry.text, prefix, strlen(prefix));
}

/* Return the number at the beginning of the entry ("1gpu" is 1, as for strtoul()), or NOT_HERE. */
static int entry_index(struct entry entry, size_t count)
{
	size_t i = entry.length && entry.text[0] == '+', digits = 0, n = 0;

	for (; i < entry.length && entry.text[i] >= '0' && entry.text[i] <= '9'; i++, digits++) {
		n = 10 * n + (size_t)(entry.text[i] - '0');
		if (n >= count)
			return NOT_HERE;
	}
	return digits ? (int)n : NOT_HERE;
}

/* Return the only GPU whose UUID begins with the entry. */
static int entry_uuid(struct entry entry, const struct gt_gpu *gpus, size_t count)
{
	int found = NOT_HERE;

	for (size_t i = 0; i < count; i++) {
		if (strncmp(gpus[i].uuid, entry.text, entry.length) != 0)
			continue;
		if (found != NOT_HERE)
			return AMBIGUOUS;
		found = (int)i;
	}
	return found;
}

/* Find the GPU with this MIG instance, and the index of the instance. */
static int entry_mig(struct entry entry, const struct gt_gpu *gpus, size_t count, int *mig)
{
	int found = NOT_HERE;

	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < gpus[i].mig_count; j++) {
			if (strncmp(gpus[i].mig_uuid[j], entry.text, entry.length) != 0)
				continue;
			if (found != NOT_HERE)
				return AMBIGUOUS;
			found = (int)i;
			*mig = (int)j;
		}
	}
	return found;
}

static void hide_all(struct gt_gpu *gpus, size_t count)
{
	for (size_t i = 0; i < count; i++)
		gpus[i].logical = gpus[i].logical_mig = -1;
}

static struct entry trimmed(const char *text, size_t length)
{
	while (length && (*text == ' ' || *text == '\t')) {
		text++;
		length--;
	}
	while (length && (text[length - 1] == ' ' || text[length - 1] == '\t'))
		length--;
	return (struct entry){ text, length };
}

static void note_end(char *note, size_t size, struct entry entry, int found)
{
	int shown = entry.length < 60 ? (int)entry.length : 60;

	snprintf(note, size, "CUDA_VISIBLE_DEVICES: '%.*s' is %s, the list ends before it", shown,
	    entry.text, found == AMBIGUOUS ? "more than one device" : "no device here");
}

/*
 * Number the GPUs as CUDA does if CUDA_VISIBLE_DEVICES has the value `value`. In each GPU of
 * gpus[count], set `logical` and `logical_mig` (nvml.h). `logical` is the number N of the GPU's
 * name cuda:N. If cuda:N is only one MIG instance of the GPU, `logical_mig` is the index of this
 * instance, otherwise -1. Both are -1 for a hidden GPU.
 *
 *   value               visible GPUs
 *   NULL (unset)        all GPUs, in order
 *   ""                  none
 *   "2,1"               GPU 2 is cuda:0, GPU 1 is cuda:1
 *   "1gpu"              GPU 1: numbers are parsed as by strtoul()
 *   "GPU-8932f937,0"    the only GPU with a UUID that begins with this text, then GPU 0
 *   "MIG-..."           the MIG instance with this UUID, and no other device
 *   "0,-1,1"            only GPU 0: the list ends at the first entry that is not a GPU here
 *   "0,1,0"             none: a list with the same GPU twice is invalid
 *
 * note[note_size] receives one line about a problem in the list, or "" if there is none. Return the
 * number of visible devices.
 *
 * Source: CUDA Programming Guide, "CUDA Environment Variables". The guide does not say how numbers
 * are parsed, nor that a list with the same GPU twice is invalid. In both cases this function
 * behaves like the driver and like PyTorch's torch.cuda.device_count().
 */
size_t gt_visible_apply(
    struct gt_gpu *gpus, size_t count, const char *value, char *note, size_t note_size)
{
	size_t visible = 0;

	note[0] = '\0';
	hide_all(gpus, count);
	for (size_t i = 0; !value && i < count; i++)
		gpus[visible++].logical = (int)i;
	if (!value || value[0] == '\0')
		return visible;
	for (const char *s = value;; s++) {
		size_t length = strcspn(s, ",");
		struct entry entry = trimmed(s, length);
		int mig = -1, found;

		if (begins(entry, "MIG-"))
			found = visible ? NOT_HERE : entry_mig(entry, gpus, count, &mig);
		else if (begins(entry, "GPU-"))
			found = entry_uuid(entry, gpus, count);
		else
			found = entry_index(entry, count);
		if (found < 0) {
			note_end(note, note_size, entry, found);
			return visible;
		}
		if (gpus[found].logical >= 0) {
			snprintf(note, note_size,
			    "CUDA_VISIBLE_DEVICES: GPU %d is listed twice, so CUDA shows none",
			    found);
			hide_all(gpus, count);
			return 0;
		}
		gpus[found].logical = (int)visible++;
		gpus[found].logical_mig = mig;
		s += length;
		if (*s == '\0' || mig >= 0)
			return visible;
	}
}

/* Return whether the list depends on CUDA's numbers: it has all GPUs, or one by its number. */
static bool counts_gpus(const char *value)
{
	if (!value)
		return true;
	for (const char *s = value; *s; s += *s == ',') {
		size_t length = strcspn(s, ",");
		struct entry entry = trimmed(s, length);

		if (!begins(entry, "GPU-") && !begins(entry, "MIG-"))
			return true;
		s += length;
	}
	return false;
}

bool gt_visible_order_unsure(
    const struct gt_gpu *gpus, size_t count, const char *value, const char *order)
{
	const char *model = NULL;

	if ((order && !strcmp(order, "PCI_BUS_ID")) || !counts_gpus(value))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!gpus[i].name[0])
			continue;
		if (model && strcmp(gpus[i].name, model) != 0)
			return true;
		model = gpus[i].name;
	}
	return false;
}
