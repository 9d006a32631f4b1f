/* name.c - devices as --device names them. */
#include "lib/device/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/text.h"

const char *const gt_device_words[] = { "cpu", "cuda", NULL };

enum { INDEX_MAX = 1023 /* larger numbers are assumed to be typing mistakes */ };

/* An element of a list: text[0 .. length), which begins with the name of its backend. */
struct element {
	const char *text;
	int length, name;
	const struct gt_backend *backend;
	int index; /* -1: all devices of the backend */
};

struct list {
	struct gt_device_name *names;
	size_t count, capacity;
};

static int hint(struct gt_err *err)
{
	return gt_err_hint(
	    err, "a device is cpu, cuda or cuda:N; a list is cuda:0,cuda:2 or cuda:0,2");
}

static int fail_on_device_name(const struct element *e, struct gt_err *err)
{
	if (e->length)
		gt_err_set(err, GT_EINVAL, "'%.*s' is not a device",
		    e->length < 60 ? e->length : 60, e->text);
	else
		gt_err_set(err, GT_EINVAL, "empty device name");
	return hint(err);
}

static int fail_backend(
    const struct element *e, const struct gt_backend *const *backends, struct gt_err *err)
{
	char names[80] = "";
	size_t used = 0;

	for (int i = 0; backends[i] && used < sizeof(names); i++)
		used += (size_t)snprintf(
		    names + used, sizeof(names) - used, "%s'%s'", i ? ", " : "", backends[i]->name);
	gt_err_set(err, GT_ENOTSUP, "this build computes on %s only, not on '%.*s'", names,
	    e->name < 60 ? e->name : 60, e->text);
	return gt_err_hint(err, "'gtrain probe' lists the devices and backends");
}

/* ---- one element ---- */

/* Parse a decimal number without sign or leading zeros. Returns -1 for other text. */
static int read_device_index(const char *s, int length)
{
	int n = 0;

	if (length == 0 || (s[0] == '0' && length > 1))
		return -1;
	for (int i = 0; i < length; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		n = 10 * n + (s[i] - '0');
		if (n > INDEX_MAX)
			return -1;
	}
	return n;
}

static const struct gt_backend *find_backend(
    const struct element *e, const struct gt_backend *const *backends)
{
	for (int i = 0; backends[i]; i++)
		if ((size_t)e->name == strlen(backends[i]->name) &&
		    !memcmp(e->text, backends[i]->name, (size_t)e->name))
			return backends[i];
	return NULL;
}

/* Parse an element. `before` is the backend of the element before it, or NULL. */
static int read_element(struct element *e, const struct gt_backend *before,
    const struct gt_backend *const *backends, struct gt_err *err)
{
	const char *colon = memchr(e->text, ':', (size_t)e->length);

	e->name = colon ? (int)(colon - e->text) : e->length;
	e->index = colon ? read_device_index(colon + 1, e->length - e->name - 1)
	                 : read_device_index(e->text, e->length);
	if (!e->name || (colon && e->index < 0))
		return fail_on_device_name(e, err);
	if (!colon && e->index >= 0) {
		e->backend = before;
		return before ? 0 : fail_on_device_name(e, err);
	}
	e->backend = find_backend(e, backends);
	return e->backend ? 0 : fail_backend(e, backends, err);
}

/* ---- devices of the machine ---- */

static int check_there(const struct element *e, struct gt_err *err)
{
	const char *name = e->backend->name;
	int count = e->backend->count();
	char text[GT_TEXT_SIZE];

	if (count && e->index < count)
		return 0;
	if (count == 1)
		gt_err_set(err, GT_EDEVICE, "there is no %s:%d: this machine has %s:0 alone", name,
		    e->index, name);
	else if (count)
		gt_err_set(err, GT_EDEVICE, "there is no %s:%d: this machine has %s:0 to %s:%d",
		    name, e->index, name, name, count - 1);
	else if (!e->backend->describe(/* sets the reason */
	             e->index < 0 ? 0 : e->index, text, sizeof(text), err))
		gt_err_set(err, GT_EDEVICE, "this machine has none");
	return err->hint[0] ? err->code
	                    : gt_err_hint(err, "'gtrain probe' lists the devices and backends");
}

static int add_device_name(
    struct list *l, const struct gt_backend *backend, int index, struct gt_err *err)
{
	for (size_t i = 0; i < l->count; i++) {
		if (l->names[i].backend != backend) {
			gt_err_set(err, GT_EINVAL, "devices of '%s' and '%s' in one list",
			    l->names[i].backend->name, backend->name);
			return gt_err_hint(
			    err, "use the CPU alone, cpu, or GPUs alone, as in cuda:0,1");
		}
		if (l->names[i].index == index) {
			gt_err_set(
			    err, GT_EINVAL, "device '%s:%d' is listed twice", backend->name, index);
			return gt_err_hint(
			    err, "name each device once; more ranks than devices share them");
		}
	}
	if (gt_grow(&l->names, l->count, &l->capacity, sizeof(*l->names), err))
		return err->code;
	l->names[l->count++] = (struct gt_device_name){ backend, index };
	return 0;
}

static int add_element(struct list *l, const struct element *e, struct gt_err *err)
{
	int first = e->index < 0 ? 0 : e->index;
	int end = e->index < 0 ? e->backend->count() : first + 1;
	int rc = check_there(e, err);

	for (int i = first; !rc && i < end; i++)
		rc = add_device_name(l, e->backend, i, err);
	return rc;
}

int gt_device_names_read(struct gt_device_name **out, size_t *count, const char *text,
    const struct gt_backend *const *backends, struct gt_err *err)
{
	struct element e = { .text = text };
	struct list l = { 0 };
	int rc;

	do {
		e.length = (int)strcspn(e.text, ",");
		rc = read_element(&e, e.backend, backends, err);
		if (!rc)
			rc = add_element(&l, &e, err);
		e.text += e.length;
	} while (!rc && *e.text++);
	if (rc) {
		free(l.names);
		l = (struct list){ 0 };
	}
	*out = l.names;
	*count = l.count;
	return rc;
}
