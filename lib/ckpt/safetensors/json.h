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

/* Skip the "{" at the start of an object. */
int gt_json_enter(struct gt_json *json, struct gt_err *err);

/*
 * Read the next key of the object that was entered. `first` is true for the object's first key.
 * *key is yours to free(), and holds no zero byte. At the end of the object *key is NULL, and the
 * "}" is skipped. *at is the offset in the text of the '"' before the key, and *length the number
 * of bytes there, with quotes and escapes. The caller then reads the value: by gt_json_value(), or
 * by gt_json_enter() and gt_json_key() again.
 */
int gt_json_key(
    struct gt_json *json, bool first, char **key, size_t *at, size_t *length, struct gt_err *err);

/* A key of an object, as gt_json_key() gives it. */
struct gt_json_key {
	char *text;
	size_t at, length;
};

/* Reads the value of a member by gt_json_value() or gt_json_enter(). An error ends
 * gt_json_members(). The key is borrowed. */
typedef int gt_json_member(
    void *self, struct gt_json *json, const struct gt_json_key *key, struct gt_err *err);

/* Enter the object that comes next, and call `member` for each of its members. */
int gt_json_members(struct gt_json *json, gt_json_member *member, void *self, struct gt_err *err);

/* Parse the value that comes next. Its text may have at most `limit` bytes. A duplicate key in it
 * is an error. */
int gt_json_value(struct gt_json *json, size_t limit, json_t **value, struct gt_err *err);

/* Skip white space. Returns true at the end of the text. */
bool gt_json_at_end(struct gt_json *json);

/* Return the value of an integer that is 0 or more; -1 for any other value and for NULL. */
json_int_t gt_json_count(const json_t *value);

#endif
