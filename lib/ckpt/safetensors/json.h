/* json.h - private: large JSON objects, read one member at a time. */
#ifndef GT_CKPT_SAFETENSORS_JSON_H
#define GT_CKPT_SAFETENSORS_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/*
 * jansson needs twenty times the size of a text in memory. These functions find members one by
 * one, and jansson parses one key or value at a time. `text` is borrowed, not zero-terminated.
 */
struct gt_json {
	const char *text;
	size_t size, at; /* length of the text in bytes; offset of the next byte to read */
	size_t base;     /* offset of the text in its file, for messages */
};

/* Skip the "{" at the start of an object. */
int gt_json_enter(struct gt_json *json, struct gt_err *err);

/*
 * Read the next key; the caller frees *key and reads the value. *at and *length are the place of
 * the key with its quotes. At the end of the object, *key is NULL and "}" is skipped.
 */
int gt_json_key(
    struct gt_json *json, bool first, char **key, size_t *at, size_t *length, struct gt_err *err);

/* A key of an object; the fields have the values that gt_json_key() returns. */
struct gt_json_key {
	char *text;
	size_t at, length;
};

/* Read the value of a member. An error stops gt_json_members(). The key is borrowed. */
typedef int gt_json_member(
    void *self, struct gt_json *json, const struct gt_json_key *key, struct gt_err *err);

/*
 * Read an object at the current position: call `member` for each of its members. `self` is the
 * first argument of `member`.
 */
int gt_json_members(struct gt_json *json, gt_json_member *member, void *self, struct gt_err *err);

/*
 * Parse the next value, of at most `limit` bytes. An object with a key twice is an error. Release
 * *value with json_decref().
 */
int gt_json_value(struct gt_json *json, size_t limit, json_t **value, struct gt_err *err);

/* Skip the next value, of at most `limit` bytes, with integers of any size. */
int gt_json_skip(struct gt_json *json, size_t limit, struct gt_err *err);

/* Skip white space. Return true if no text follows. */
bool gt_json_at_end(struct gt_json *json);

/*
 * Return the value of a JSON integer that is 0 or more. Return -1 for any other value and for NULL.
 */
json_int_t gt_json_count(const json_t *value);

#endif
