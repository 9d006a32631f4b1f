/* json.h - inside ckpt: large JSON objects, read one member at a time. */
#ifndef GT_CKPT_SAFETENSORS_JSON_H
#define GT_CKPT_SAFETENSORS_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/*
 * Headers and indexes are objects with many small members. jansson needs about twenty times the
 * bytes of the text for a whole document. So these functions find the members one by one, and
 * jansson parses each key and value alone. `text` is borrowed and need not end with a zero.
 */
struct gt_json {
	const char *text;
	size_t size, at; /* `at`: the next byte to read */
	size_t base;     /* where the text starts in its file, for messages */
};

/* Pass the "{" of an object. */
int gt_json_enter(struct gt_json *json, struct gt_err *err);

/*
 * The next key of the object entered, yours to free() (it holds no zero); NULL after the last one,
 * whose "}" is passed. `first`: of this object. *at is the byte of its '"' in the text, *length the
 * bytes it takes there, quotes and escapes included. The caller reads the value next:
 * gt_json_value(), or gt_json_enter() and the members.
 */
int gt_json_key(
    struct gt_json *json, bool first, char **key, size_t *at, size_t *length, struct gt_err *err);

/* A key of an object, as gt_json_key() gives it. */
struct gt_json_key {
	char *text;
	size_t at, length;
};

/* Reads the value of a member, in either way; an error ends the walk. The key is borrowed. */
typedef int gt_json_member(
    void *self, struct gt_json *json, const struct gt_json_key *key, struct gt_err *err);

/* Enter the object at hand, and call `member` for each of its members. */
int gt_json_members(struct gt_json *json, gt_json_member *member, void *self, struct gt_err *err);

/* The value at hand, parsed, duplicate keys in it refused; at most `limit` bytes of text. */
int gt_json_value(struct gt_json *json, size_t limit, json_t **value, struct gt_err *err);

/* Pass blanks; true at the end of the text. */
bool gt_json_at_end(struct gt_json *json);

/* A value as a count (an integer from 0), or -1, also for NULL. */
json_int_t gt_json_count(const json_t *value);

#endif
