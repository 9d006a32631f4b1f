/* inside.h - inside data: the parts of a tokenizer of byte-pair encoding. */
#ifndef GT_DATA_BPE_INSIDE_H
#define GT_DATA_BPE_INSIDE_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "lib/base/mem.h"
#include "lib/data/bpe/bpe.h"

/* Borrowed bytes. */
struct gt_bpe_string {
	const unsigned char *p;
	uint32_t n;
};

/* ---- vocab.c: tokens, and merges of pairs ---- */

struct gt_bpe_merge {
	uint32_t left, right; /* ids */
	uint32_t rank, id;    /* the lower rank is merged first; the token that they become */
};

struct gt_bpe_vocab {
	struct gt_bpe_string *tokens; /* [size]; p NULL: no token has this id */
	int size;
	uint32_t *slots; /* [mask + 1], open addressing: id + 1 by the token's bytes; 0: free */
	uint32_t mask;
	struct gt_bpe_merge *merges; /* [merge_mask + 1], open addressing; id UINT32_MAX: free */
	uint32_t merge_mask;
	struct gt_arena arena;
};

/* A hash of bytes for tables with untrusted keys. Chosen keys can make a table slow, but their
 * number is limited. */
uint64_t gt_bpe_hash(const unsigned char *p, size_t n);

/* Allocate memory for tokens with ids below `size`. */
int gt_bpe_vocab_init(struct gt_bpe_vocab *v, int size, struct gt_err *err);
/* Copies the bytes. GT_EFORMAT: the id is taken. */
int gt_bpe_vocab_add(
    struct gt_bpe_vocab *v, int32_t id, const char *text, size_t n, struct gt_err *err);
/* The id of a token, or -1. */
int32_t gt_bpe_vocab_find(const struct gt_bpe_vocab *v, const unsigned char *p, size_t n);

/* Allocate memory for `count` merges; then add each with its rank. A repeated pair gets the later
 * rank. */
int gt_bpe_merges_init(struct gt_bpe_vocab *v, size_t count, struct gt_err *err);
void gt_bpe_merges_add(struct gt_bpe_vocab *v, const struct gt_bpe_merge *merge);
/* NULL: this pair is not merged. */
const struct gt_bpe_merge *gt_bpe_merges_find(
    const struct gt_bpe_vocab *v, uint32_t left, uint32_t right);
void gt_bpe_vocab_release(struct gt_bpe_vocab *v);

/* ---- merge.c: the symbols of a word become tokens ---- */

struct gt_bpe_heap;

/* Memory that words share. */
struct gt_bpe_scratch {
	uint32_t *ids; /* [capacity]: symbols, and the tokens they become */
	size_t capacity;
	struct gt_bpe_heap *heap; /* for long words */
};

/* Ensure memory for n symbols. */
int gt_bpe_scratch_reserve(struct gt_bpe_scratch *s, size_t n, struct gt_err *err);
/* Merge s->ids [n] in place; *n is then the number of tokens. */
int gt_bpe_merge_word(
    const struct gt_bpe_vocab *v, struct gt_bpe_scratch *s, size_t *n, struct gt_err *err);
void gt_bpe_scratch_release(struct gt_bpe_scratch *s);

/* ---- pattern.c: regular expressions ---- */

struct gt_bpe_pattern;
struct gt_bpe_matcher; /* each thread has its own */

/* Compile a pattern in Oniguruma's syntax, which the reference uses. Syntax with another meaning in
 * PCRE2 is GT_ENOTSUP; the error names it. */
int gt_bpe_pattern_open(
    struct gt_bpe_pattern **out, const char *text, size_t size, struct gt_err *err);
void gt_bpe_pattern_close(struct gt_bpe_pattern *pattern);
/* Whether the pattern may only be matched with valid UTF-8 that no other process can change. */
bool gt_bpe_pattern_is_interpreted(const struct gt_bpe_pattern *pattern);

int gt_bpe_matcher_open(struct gt_bpe_matcher **out, struct gt_err *err);
void gt_bpe_matcher_close(struct gt_bpe_matcher *m);

/* Find the first match in text [n] at or after `from`: *start = *end = n where there is none. A
 * match is never empty. */
int gt_bpe_match(const struct gt_bpe_pattern *pattern, struct gt_bpe_matcher *m,
    const unsigned char *text, size_t n, size_t from, size_t *start, size_t *end,
    struct gt_err *err);

/* ---- added.c: tokens that are found before all others ---- */

struct gt_bpe_added {
	struct gt_bpe_string text;
	int32_t id;
	bool left, right; /* the token includes white space on this side */
	/* it is found in a second pass, in the text between tokens of the first pass */
	bool normalized;
};

struct gt_bpe_added_list {
	struct gt_bpe_added *tokens; /* [count], by pass, then by first byte, the longest first */
	size_t count;
	/* by pass: those that begin with byte b are first[b] .. first[b + 1] */
	uint32_t first[2][257];
};

/* A stretch of a text: an added token, or, if id is -1, text to be tokenized. */
struct gt_bpe_item {
	const unsigned char *p;
	size_t n;
	int32_t id;
	bool begins; /* the text begins with it */
};

struct gt_bpe_items {
	struct gt_bpe_item *items; /* [count], yours to free() */
	size_t count, capacity;
};

/* Sort the tokens, which the list owns from now on. */
void gt_bpe_added_sort(struct gt_bpe_added_list *list);
int gt_bpe_added_split(const struct gt_bpe_added_list *list, const unsigned char *text, size_t size,
    struct gt_bpe_items *out, struct gt_err *err);

/* ---- the tokenizer ---- */

enum { GT_BPE_MAX_STAGES = 16, GT_BPE_MAX_REPLACED = 32 };

/* A step that cuts words further; steps are applied in order. Only for tokenizers of bytes. */
struct gt_bpe_stage {
	/* NULL: this step adds a space before each piece that does not begin with one */
	struct gt_bpe_pattern *pattern;
	bool drop_matches, drop_gaps; /* these pieces are dropped */
};

/* Pairs of adjacent characters that some merge joins. */
struct gt_bpe_joins {
	uint64_t *pairs; /* [mask + 1], open addressing; UINT64_MAX: free */
	uint32_t mask;
	uint64_t ascii[128][2]; /* bit b of row a: a and b are joined */
};

enum gt_bpe_prefix { GT_BPE_PREFIX_NEVER, GT_BPE_PREFIX_ALWAYS, GT_BPE_PREFIX_FIRST };

/* How characters are normalized, and where words may be cut. */
struct gt_bpe_chars {
	unsigned char prefix[GT_BPE_MAX_REPLACED]; /* put before a segment */
	int prefix_size;
	enum gt_bpe_prefix when;
	bool unless_there; /* only if the segment does not begin with the prefix */
	bool normalizer;   /* these two belong to a normalizer, not to a pre_tokenizer */
	uint32_t from;     /* this character (0: none) is replaced by ... */
	unsigned char to[GT_BPE_MAX_REPLACED];
	int to_size;
	uint32_t to_first, to_last; /* first and last character of `to` */
	uint32_t split;             /* a word ends before this character; 0: none */
	bool soft;                  /* a word also ends between characters that no merge joins */
	struct gt_bpe_joins joins;
	int32_t ascii[128]; /* ids of characters, -1: none */
};

struct gt_bpe {
	struct gt_bpe_vocab vocab;
	int model_size; /* tokens of the model; more are added */
	bool bytes;     /* a tokenizer of bytes; otherwise of characters */
	bool byte_fallback, all_bytes, fuse_unk, ignore_merges;
	int32_t begin;         /* gt_bpe_begin() */
	int32_t unk;           /* -1: none, symbols that are unknown vanish */
	int32_t byte_ids[256]; /* ids of the symbols of bytes, or of <0x00> .. <0xFF>; -1: none */
	uint32_t letters[256]; /* how the vocabulary writes bytes */
	struct gt_bpe_added_list added;
	struct gt_bpe_stage stages[GT_BPE_MAX_STAGES];
	int stage_count;
	struct gt_bpe_chars chars;

	/* Decoding. */
	bool plain_bytes; /* <0xE2> stands for a byte */
	uint32_t space;   /* this character stands for a space; 0: none */
	bool strip_first; /* one space at the beginning of a text is left out */
	/* all spaces at the start of a text's first token are left out */
	bool drop_first;
	struct gt_bpe_string *texts; /* [vocab.size]: bytes of each token */

	char *source; /* tokenizer.json */
	size_t source_size;
	char digest[GT_BPE_DIGEST];
	atomic_int owners;
};

/* read_model.c, read_words.c, decode.c: each reads a part of a tokenizer.json into *bpe. */
int gt_bpe_read(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
int gt_bpe_read_model(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
int gt_bpe_read_added(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
int gt_bpe_read_pre_tokenizer(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
int gt_bpe_read_normalizer(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
/* A Metaspace, as pre_tokenizer or decoder: the character for spaces, when it is put before a
 * segment, and whether words are split there. */
int gt_bpe_read_metaspace(uint32_t *mark, enum gt_bpe_prefix *when, bool *split, const json_t *json,
    const char *where, struct gt_err *err);
int gt_bpe_read_decoder(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
/* gpt2.c: vocab.json and merges.txt as a tokenizer.json; *out is yours. */
int gt_bpe_read_gpt2(
    json_t **out, const json_t *vocab, const char *merges, size_t size, struct gt_err *err);

/* fields.c: GT_ENOTSUP unless all keys are among `known`, a list with spaces between. */
int gt_bpe_check_keys(
    const json_t *object, const char *where, const char *known, struct gt_err *err);
const char *gt_bpe_type(const json_t *object);
/* GT_ENOTSUP: "WHERE of TYPE is not supported". */
int gt_bpe_unsupported(const json_t *object, const char *where, struct gt_err *err);
/* true, false or, if it is missing or null, `otherwise`. */
int gt_bpe_read_bool(bool *out, const json_t *object, const char *key, bool otherwise,
    const char *where, struct gt_err *err);
/* The only character of a string, which must have one. */
int gt_bpe_read_char(uint32_t *out, const json_t *string, const char *where, struct gt_err *err);
/* {"String": "x"}; NULL with err set for anything else. */
const json_t *gt_bpe_read_literal(const json_t *pattern, const char *where, struct gt_err *err);

/* alphabet.c: GPT-2 writes each byte as a character that can be seen. */
uint32_t gt_bpe_letter_of(unsigned char byte);
/* The byte that a character stands for, or -1. */
int gt_bpe_byte_of(uint32_t letter);
/* Write a character as UTF-8; returns its length. */
int gt_bpe_put_char(unsigned char out[4], uint32_t code);
/* White space as Unicode has it. */
bool gt_bpe_is_space(uint32_t code);

/* utf8.c: *out is a copy in which each of the ill-formed *parts is U+FFFD; NULL: there are none. */
int gt_bpe_repair(unsigned char **out, size_t *size, int64_t *parts, const unsigned char *p,
    size_t n, struct gt_err *err);

/* chars.c */
int gt_bpe_chars_prepare(struct gt_bpe *bpe, struct gt_err *err);
void gt_bpe_chars_release(struct gt_bpe_chars *c);

/* decode.c: fill in bpe->texts. */
int gt_bpe_prepare_texts(struct gt_bpe *bpe, struct gt_err *err);

/* ---- word.c, bytes.c, chars.c: a thread's work ---- */

struct gt_bpe_ids {
	int32_t *ids;
	size_t count, capacity;
};

int gt_bpe_ids_put(struct gt_bpe_ids *out, const uint32_t *ids, size_t n, struct gt_err *err);

struct gt_bpe_words; /* words that were met before */

struct gt_bpe_worker {
	const struct gt_bpe *bpe;
	struct gt_bpe_scratch scratch;
	struct gt_bpe_matcher *matcher;
	struct gt_bpe_words *words;
	unsigned char *buffers[GT_BPE_MAX_STAGES + 1]; /* normalized words */
	size_t sizes[GT_BPE_MAX_STAGES + 1];
	struct gt_bpe_worker *next; /* next thread in the list of idle threads */
};

int gt_bpe_worker_open(struct gt_bpe_worker **out, const struct gt_bpe *bpe, struct gt_err *err);
void gt_bpe_worker_close(struct gt_bpe_worker *w);
/* Ensure n bytes of memory in a buffer. */
int gt_bpe_worker_reserve(struct gt_bpe_worker *w, int buffer, size_t n, struct gt_err *err);

/* Turn a word into ids. */
int gt_bpe_word(struct gt_bpe_worker *w, const unsigned char *p, size_t n, struct gt_bpe_ids *out,
    struct gt_err *err);

enum { GT_BPE_MARKS = 64 };

/* A chunk of a segment: it begins at `from`, and ends with the first word that ends at or after
 * `until`. */
struct gt_bpe_chunk {
	const unsigned char *p; /* the segment [n] */
	size_t n, from, until;
	bool prefixed; /* characters: the prefix goes before the first word */
	size_t end;    /* where it ended */
	struct gt_bpe_ids ids;
	size_t marks; /* the first places between words, and the ids up to there */
	size_t mark_at[GT_BPE_MARKS], mark_ids[GT_BPE_MARKS];
};

int gt_bpe_split_bytes(struct gt_bpe_worker *w, struct gt_bpe_chunk *chunk, struct gt_err *err);
int gt_bpe_split_chars(struct gt_bpe_worker *w, struct gt_bpe_chunk *chunk, struct gt_err *err);
/* For tokenizers of characters: the first place at or after `at` where a word certainly begins. */
size_t gt_bpe_chars_cut(const struct gt_bpe *bpe, const unsigned char *p, size_t n, size_t at);

#endif
