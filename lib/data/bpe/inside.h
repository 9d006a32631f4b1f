/* inside.h - private: the parts of a tokenizer of byte-pair encoding. */
#ifndef GT_DATA_BPE_INSIDE_H
#define GT_DATA_BPE_INSIDE_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "lib/base/mem.h"
#include "lib/data/bpe/bpe.h"
#include "lib/data/bpe/normalize.h"

/*
 * Terms, from coarse to fine (bpe.h explains the steps):
 *
 *   segment   a stretch of text between added tokens (such as `<|endoftext|>`)
 *   chunk     a part of a segment that one thread tokenizes
 *   word      a part of a segment; merges never cross its ends
 *   symbol    a character or byte of a word, before merges
 */

/* Borrowed bytes: `n` bytes at `p`. */
struct gt_bpe_string {
	const unsigned char *p;
	uint32_t n;
};

/* ---- vocab.c: tokens, and merges of pairs ---- */

/* A pair of tokens, and the token that replaces it. */
struct gt_bpe_merge {
	uint32_t left, right; /* ids of the pair */
	/* Among the pairs of a word, the pair with the lowest rank is merged first. `id` is the id
	 * of the merged token. */
	uint32_t rank, id;
};

/* A secret that hashes depend on, drawn for each vocabulary. */
struct gt_bpe_key {
	uint64_t words[2];
};

/* Hash tables in this struct use open addressing: after a collision, the next slot is tried. */
struct gt_bpe_vocab {
	struct gt_bpe_key key;
	struct gt_bpe_string *tokens; /* [size], by id; p is NULL if no token has this id */
	int size;
	uint32_t *slots; /* [mask + 1], hash table from bytes to id + 1; 0: free slot */
	uint32_t mask;
	struct gt_bpe_merge *merges; /* [merge_mask + 1], hash table; id UINT32_MAX: free slot */
	uint32_t merge_mask;
	struct gt_arena arena;
};

/* Draw a key; `memory` is the address of anything. */
void gt_bpe_key_draw(struct gt_bpe_key *key, const void *memory);

/* Return a hash of bytes, or of a pair of numbers, for tables with keys from untrusted files. All
 * bits of it can be used. */
uint64_t gt_bpe_hash(const struct gt_bpe_key *key, const unsigned char *p, size_t n);
uint64_t gt_bpe_hash_pair(const struct gt_bpe_key *key, uint32_t a, uint32_t b);

/* Allocate memory for tokens with ids below `size`. */
int gt_bpe_vocab_init(struct gt_bpe_vocab *v, int size, struct gt_err *err);
/* Add a token, and copy its bytes, text[n]. Errors: GT_EFORMAT if another token has this id or
 * these bytes, GT_ENOMEM. */
int gt_bpe_vocab_add(
    struct gt_bpe_vocab *v, int32_t id, const char *text, size_t n, struct gt_err *err);
/* Return the id of the token with these bytes, or -1. */
int32_t gt_bpe_vocab_find(const struct gt_bpe_vocab *v, const unsigned char *p, size_t n);

/* Allocate memory for `count` merges. The caller then adds each merge with gt_bpe_merges_add(). If
 * a pair is added twice, the second merge replaces the first one. */
int gt_bpe_merges_init(struct gt_bpe_vocab *v, size_t count, struct gt_err *err);
void gt_bpe_merges_add(struct gt_bpe_vocab *v, const struct gt_bpe_merge *merge);
/* Return the merge of a pair, borrowed; NULL if this pair is never merged. */
const struct gt_bpe_merge *gt_bpe_merges_find(
    const struct gt_bpe_vocab *v, uint32_t left, uint32_t right);
void gt_bpe_vocab_release(struct gt_bpe_vocab *v);

/* ---- merge.c: merge the symbols of a word ---- */

struct gt_bpe_heap;

/* Memory that is used again for each word. */
struct gt_bpe_scratch {
	uint32_t *ids; /* [capacity] ids of symbols; after gt_bpe_merge_word(), ids of tokens */
	size_t capacity;
	struct gt_bpe_heap *heap; /* for long words; NULL before the first one */
};

/* Enlarge s->ids to at least n symbols. */
int gt_bpe_scratch_reserve(struct gt_bpe_scratch *s, size_t n, struct gt_err *err);
/* Merge the symbols s->ids [*n] of a word in place, and set *n to the number of tokens. */
int gt_bpe_merge_word(
    const struct gt_bpe_vocab *v, struct gt_bpe_scratch *s, size_t *n, struct gt_err *err);
void gt_bpe_scratch_release(struct gt_bpe_scratch *s);

/* ---- pattern.c: regular expressions ---- */

/* White space as a part of a class in the syntax of PCRE2. */
#define GT_BPE_SPACES                                                                              \
	"\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"        \
	"\\x{205F}\\x{3000}"

/* How the package's ByteLevel matches words: those of GPT-2. */
#define GT_BPE_GPT2_WORDS                                                                          \
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" GT_BPE_SPACES                           \
	"\\p{L}\\p{N}]+|[" GT_BPE_SPACES "]+(?![^" GT_BPE_SPACES "])|[" GT_BPE_SPACES "]+"

struct gt_bpe_pattern;
struct gt_bpe_matcher; /* memory for matching; each thread has its own */

/* Compile a pattern with PCRE2. The pattern is in the syntax of Oniguruma, the library that Hugging
 * Face's package `tokenizers` uses. Errors: GT_ENOTSUP names syntax that has another meaning in
 * PCRE2; GT_EFORMAT for a malformed pattern; GT_ENOMEM. */
int gt_bpe_pattern_open(
    struct gt_bpe_pattern **out, const char *text, size_t size, struct gt_err *err);
/* Compile a pattern in the syntax of PCRE2. */
int gt_bpe_pattern_open_perl(struct gt_bpe_pattern **out, const char *text, struct gt_err *err);
/* Compile a pattern that matches the text [size]. */
int gt_bpe_pattern_open_literal(
    struct gt_bpe_pattern **out, const char *text, size_t size, struct gt_err *err);
void gt_bpe_pattern_close(struct gt_bpe_pattern *pattern);
/* Return whether PCRE2 interprets the pattern, because it cannot compile patterns to machine code
 * on this machine. An interpreted pattern needs text that is valid UTF-8 and that no other process
 * can change. */
bool gt_bpe_pattern_is_interpreted(const struct gt_bpe_pattern *pattern);

int gt_bpe_matcher_open(struct gt_bpe_matcher **out, struct gt_err *err);
void gt_bpe_matcher_close(struct gt_bpe_matcher *m);

/* Find the first match in text [n] at or after byte `from`, and set [*start, *end) to its range.
 * Without a match, both are n. A match is never empty. Errors: GT_EFORMAT if the search takes too
 * many steps, or all searches with this matcher too long for so many bytes. */
int gt_bpe_match(const struct gt_bpe_pattern *pattern, struct gt_bpe_matcher *m,
    const unsigned char *text, size_t n, size_t from, size_t *start, size_t *end,
    struct gt_err *err);

/* ---- added.c: find added tokens, before the text is cut into words ---- */

struct gt_bpe_added {
	struct gt_bpe_string text;
	int32_t id;
	bool left, right; /* white space to the left or right of the token becomes part of it */
	/* The token is searched for in the second pass, which reads only the text between the
	 * tokens that the first pass found, once normalized; so is `text`. */
	bool normalized;
	size_t place; /* index of the token in the file's list */
};

struct gt_bpe_added_list {
	/* [count], owned; sorted by pass, then by their bytes */
	struct gt_bpe_added *tokens;
	size_t count;
	/* Tokens of pass p that begin with byte b are tokens[first[p][b]] up to, but not including,
	 * tokens[first[p][b + 1]]. */
	uint32_t first[2][257];
};

/* A stretch of a text: an added token, or a segment. */
struct gt_bpe_item {
	const unsigned char *p; /* [n] */
	size_t n;
	int32_t id;  /* id of the added token; -1: a segment */
	bool begins; /* the segment is at the beginning of the text; always false for tokens */
};

struct gt_bpe_items {
	struct gt_bpe_item *items; /* [count] */
	size_t count, capacity;
	struct gt_bpe_normalized *texts; /* [text_count], normalized; items may borrow them */
	size_t text_count;
};

/* Sort the tokens, and set list->first. Of tokens with the same id, only the last in the file is
 * kept. */
void gt_bpe_added_sort(struct gt_bpe_added_list *list);
/* Split a text into added tokens and segments, in the order of the text. Segments are normalized
 * before the second pass; normalizers NULL: they are left as they are. The items borrow the text.
 * The caller calls gt_bpe_items_release(), also after an error. */
int gt_bpe_added_split(const struct gt_bpe_added_list *list,
    const struct gt_bpe_normalizers *normalizers, const unsigned char *text, size_t size,
    struct gt_bpe_items *out, struct gt_err *err);
void gt_bpe_items_release(struct gt_bpe_items *items);

/* Return the bytes of white space that end at byte `at` of a text and begin at or after `least`; or
 * that begin at `at`. */
size_t gt_bpe_space_before(const unsigned char *text, size_t least, size_t at);
size_t gt_bpe_space_after(const unsigned char *text, size_t at, size_t size);

/* ---- the tokenizer ---- */

/* Maximum number of stages of a tokenizer; maximum bytes of a prefix or of a replacement. */
enum { GT_BPE_MAX_STAGES = 16, GT_BPE_MAX_REPLACED = 32 };

/* The segments or pieces before which a prefix is put: none, all, or only one at the beginning of
 * the text (FIRST). */
enum gt_bpe_prefix { GT_BPE_PREFIX_NEVER, GT_BPE_PREFIX_ALWAYS, GT_BPE_PREFIX_FIRST };

enum gt_bpe_stage_kind {
	GT_BPE_SPLIT,   /* cut pieces by a pattern */
	GT_BPE_SPACE,   /* add a space before each piece that does not begin with one */
	GT_BPE_MARK,    /* replace spaces by `mark`, and add one at the beginning (`when`) */
	GT_BPE_LETTERS, /* replace each byte by the character that stands for it (alphabet.c) */
};

/* What becomes of the matches of a pattern. GAP is the text between matches. */
enum gt_bpe_behavior {
	GT_BPE_ISOLATED,   /* matches and gaps are pieces */
	GT_BPE_REMOVED,    /* gaps are pieces */
	GT_BPE_PREVIOUS,   /* a match belongs to the gap before it */
	GT_BPE_NEXT,       /* a match belongs to the gap after it */
	GT_BPE_CONTIGUOUS, /* adjacent matches are one piece */
};

/* A step of a pre_tokenizer. The first step cuts a segment; each later step cuts the pieces of the
 * step before. The pieces of the last step are words. */
struct gt_bpe_stage {
	enum gt_bpe_stage_kind kind;
	struct gt_bpe_pattern *pattern;
	enum gt_bpe_behavior behavior;
	bool invert;      /* gaps are taken for matches, and matches for gaps */
	uint32_t literal; /* the character that is the whole pattern; 0: another pattern */
	uint32_t mark;
	enum gt_bpe_prefix when;
};

/* A set of pairs of characters. The pair (a, b) is in the set if some merge joins a symbol that
 * ends with a and a symbol that begins with b. */
struct gt_bpe_joins {
	const struct gt_bpe_key *key; /* borrowed */
	uint64_t *pairs; /* [mask + 1], hash table of a << 32 | b; UINT64_MAX: free slot */
	uint32_t mask;
	/* For a < 128 and b < 128: bit b of the 128 bits in ascii[a] is set if (a, b) is in the
	 * set. */
	uint64_t ascii[128][2];
};

/* The settings of a tokenizer of characters (bpe.h): how text is normalized, and where words may
 * end. */
struct gt_bpe_chars {
	/* A text that is put before a segment, such as U+2581. */
	unsigned char prefix[GT_BPE_MAX_REPLACED];
	int prefix_size; /* bytes */
	enum gt_bpe_prefix when;
	/* The prefix is not put before a segment that already begins with it. */
	bool unless_there;
	/* Each character `from` is replaced by the text `to`. If `from` is 0, nothing is
	 * replaced. */
	uint32_t from;
	unsigned char to[GT_BPE_MAX_REPLACED];
	int to_size;                /* bytes */
	uint32_t to_first, to_last; /* first and last character of `to` */
	uint32_t split;             /* a word ends before this character; 0: none */
	bool soft;                  /* a word also ends between characters that no merge joins */
	struct gt_bpe_joins joins;
	int32_t ascii[128]; /* ids of the tokens that are a single ASCII character; -1: none */
};

struct gt_bpe_worker;

/* Set w->scratch.ids [*count] to the ids of a word p [n]. */
typedef int gt_bpe_word_fn(
    struct gt_bpe_worker *w, const unsigned char *p, size_t n, size_t *count, struct gt_err *err);

struct gt_bpe {
	struct gt_bpe_vocab vocab;
	gt_bpe_word_fn *word; /* the model */
	int model_size;       /* number of tokens of the model, without added tokens */
	bool bytes;           /* true: a tokenizer of bytes; false: a tokenizer of characters */
	/* Three fields of the model in tokenizer.json, and all_bytes. byte_fallback: an unknown
	 * character is replaced by the symbols of its bytes. all_bytes: byte_ids has an id for
	 * every byte. fuse_unk: adjacent unknown characters become one `unk`. ignore_merges: a word
	 * that is a token is not split into symbols. */
	bool byte_fallback, all_bytes, fuse_unk, ignore_merges;
	struct gt_bpe_string prefix; /* WordPiece: the beginning of tokens inside a word */
	int max_chars;               /* WordPiece: a longer word is unknown */
	double *scores;              /* [model_size] Unigram: logarithms of probabilities */
	double unk_score;            /* Unigram */
	int32_t begin;          /* token that the post_processor puts before a text; -1: none */
	bool adds_others;       /* the post_processor adds other tokens than `begin` */
	json_t *post_processor; /* NULL: there is none */
	bool is_gpt2;           /* from vocab.json and merges.txt, which say nothing of it */
	int32_t padding;        /* gt_bpe_padding() */
	int32_t unk;            /* id that stands for unknown symbols; -1: they are left out */
	/* For each byte, the id of its symbol; -1: it has none. In a tokenizer of characters, these
	 * symbols are <0x00> to <0xFF>. */
	int32_t byte_ids[256];
	uint32_t letters[256]; /* the character that stands for each byte in the vocabulary */
	struct gt_bpe_added_list added;
	struct gt_bpe_normalizers normalizers;
	bool normalizes; /* apply `normalizers`; false: `chars` does it, or there are none */
	struct gt_bpe_stage stages[GT_BPE_MAX_STAGES];
	int stage_count;
	struct gt_bpe_chars chars;
	/* Decoded bytes of each token, [vocab.size]: of the first token of a text, and of
	 * others. */
	struct gt_bpe_string *first_texts, *texts;
	bool cut_short; /* the file has 'truncation' or 'padding', which are not applied */

	bool hides_nul; /* nul.c replaces U+0000 in keys of the file when it is parsed */
	char *source;   /* the bytes of tokenizer.json, [source_size] */
	size_t source_size;
	char digest[GT_BPE_DIGEST];
	atomic_int owners; /* number of references to this struct */
};

/* Return whether segments are cut into words by stages (pieces.c); otherwise by chars.c. */
static inline bool gt_bpe_has_pieces(const struct gt_bpe *bpe)
{
	return bpe->bytes || bpe->stage_count;
}

/* Read the root object of a tokenizer.json into *bpe. The caller has set bpe->begin to -1 and all
 * other fields to zero. */
int gt_bpe_read(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
/* read_model.c: read the value of "model" or "added_tokens" in the root object `json`. */
int gt_bpe_read_model(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
int gt_bpe_read_added(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
/* wordpiece.c, unigram.c: read the object "model" of these types. */
int gt_bpe_read_wordpiece(
    struct gt_bpe *bpe, const json_t *model, const json_t *added, struct gt_err *err);
int gt_bpe_read_unigram(
    struct gt_bpe *bpe, const json_t *model, const json_t *added, struct gt_err *err);
/* read_model.c: read a vocabulary {"token": id, ...}, and the token that stands for unknown
 * symbols. */
int gt_bpe_read_vocab(
    struct gt_bpe *bpe, const json_t *vocab, const json_t *added, struct gt_err *err);
int gt_bpe_read_unk(struct gt_bpe *bpe, const json_t *model, struct gt_err *err);
/* Set *size to the highest id of the added tokens plus 1, unless it is larger. */
int gt_bpe_find_added_size(int *size, const json_t *added, struct gt_err *err);
/* read_words.c: read the value of "pre_tokenizer"; NULL or null: there is none. */
int gt_bpe_read_pre_tokenizer(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
/* Simplify stages and normalizers, once the model and the added tokens are known. */
int gt_bpe_simplify_words(struct gt_bpe *bpe, struct gt_err *err);
/* Read a Metaspace object. *mark is the character that stands for a space, *when says before which
 * segments the character is put, and *split whether words end before the character. `where` is
 * "pre_tokenizer" or "decoder", for messages. */
int gt_bpe_read_metaspace(uint32_t *mark, enum gt_bpe_prefix *when, bool *split, const json_t *json,
    const char *where, struct gt_err *err);
/* post_processor.c: read the value of "post_processor"; NULL or null: there is none.
 * gt_bpe_encode() never adds special tokens around a text; its callers add them for models that
 * were trained with them. */
int gt_bpe_read_post_processor(struct gt_bpe *bpe, json_t *json, struct gt_err *err);
/* Set bpe->padding; `json` is the value of "padding", or NULL. The model must be known. */
void gt_bpe_choose_padding(struct gt_bpe *bpe, const json_t *json);
/* decode.c: read the value of "decoder", and compute bpe->texts and first_texts. NULL or null:
 * tokens become the text that they came from. */
int gt_bpe_read_decoder(struct gt_bpe *bpe, const json_t *json, struct gt_err *err);
/* gpt2.c: convert vocab.json and merges.txt to a tokenizer.json. The caller frees *out. */
int gt_bpe_convert_gpt2(
    json_t **out, const json_t *vocab, const char *merges, size_t size, struct gt_err *err);

/*
 * nul.c: copy the text of a JSON file whose keys have the escape of U+0000, with another character
 * in its place.
 *
 *   *out     the copy [*out_size], which the caller frees; NULL: the text is fine as it is
 */
int gt_bpe_hide_nul(
    char **out, size_t *out_size, const char *text, size_t size, struct gt_err *err);
/* Replace the other character by the escape in a text [size]. The caller frees *out. */
int gt_bpe_escape_nul(char **out, const char *text, struct gt_err *err);
/* Write a key [n] of such a file to `out`, of n bytes, with the U+0000. Return its bytes. */
size_t gt_bpe_show_nul(char *out, const char *key, size_t n);

/* sentencepiece.c: return whether these are the bytes of a model of SentencePiece; convert one to a
 * tokenizer.json. The caller calls json_decref(). */
bool gt_bpe_is_sentencepiece(const char *text, size_t size);
int gt_bpe_convert_sentencepiece(json_t **out, const char *text, size_t size, struct gt_err *err);

/* fields.c: in the functions below, `where` names the JSON object in messages. */

/* Return GT_ENOTSUP unless all keys of the object are in `known`, a list of keys with spaces
 * between them. */
int gt_bpe_check_keys(
    const json_t *object, const char *where, const char *known, struct gt_err *err);
/* Return the string "type" of an object, borrowed; "" if it has none. */
const char *gt_bpe_type(const json_t *object);
/* Set and return GT_ENOTSUP: "WHERE of type TYPE is not supported". */
int gt_bpe_unsupported(const json_t *object, const char *where, struct gt_err *err);
/* Read true or false; a missing key or null gives `otherwise`. */
int gt_bpe_read_bool(bool *out, const json_t *object, const char *key, bool otherwise,
    const char *where, struct gt_err *err);
/* Read a string of exactly one character. */
int gt_bpe_read_char(uint32_t *out, const json_t *string, const char *where, struct gt_err *err);

/* alphabet.c: in the files of GPT-2, a printable character stands for each byte. Return the
 * character that stands for `byte`. */
uint32_t gt_bpe_letter_of(unsigned char byte);
/* Return the byte that a character stands for, or -1. */
int gt_bpe_byte_of(uint32_t letter);
/* Return whether a character is white space in Unicode. */
bool gt_bpe_is_space(uint32_t code);

/*
 * utf8.c: copy a text p [n], and replace each ill-formed part by U+FFFD.
 *
 *   *out     the copy [*size], which the caller frees; NULL: nothing was ill-formed
 *   *parts   the number of parts that were replaced
 */
int gt_bpe_repair(unsigned char **out, size_t *size, int64_t *parts, const unsigned char *p,
    size_t n, struct gt_err *err);

/* chars.c: compute those fields of bpe->chars that depend on the vocabulary. */
int gt_bpe_chars_prepare(struct gt_bpe *bpe, struct gt_err *err);
void gt_bpe_chars_release(struct gt_bpe_chars *c);

/* ---- word.c, pieces.c, chars.c: the work of a thread ---- */

struct gt_bpe_ids {
	int32_t *ids; /* [count] */
	size_t count, capacity;
};

/* Append ids [n] to the list. */
int gt_bpe_ids_put(struct gt_bpe_ids *out, const uint32_t *ids, size_t n, struct gt_err *err);

struct gt_bpe_words; /* a cache: the ids of words that this thread tokenized before */

/* Memory of a thread. */
struct gt_bpe_worker {
	const struct gt_bpe *bpe;
	struct gt_bpe_scratch scratch;
	struct gt_bpe_matcher *matcher;
	struct gt_bpe_words *words; /* NULL: it remembers none */
	/* Without stages, buffers[0] holds the normalized word. Otherwise buffers[i] holds a piece
	 * that stage i changed. */
	unsigned char *buffers[GT_BPE_MAX_STAGES + 1];
	/* Unigram: the best path to each place of a word, [node_capacity]. */
	struct gt_bpe_node *nodes;
	size_t node_capacity;
	size_t sizes[GT_BPE_MAX_STAGES + 1]; /* bytes of each buffer */
	struct gt_bpe_worker *next;          /* next worker in the list of idle workers */
};

/* Open the memory of a thread. It remembers the ids of words if it is to tokenize many. */
int gt_bpe_worker_open(
    struct gt_bpe_worker **out, const struct gt_bpe *bpe, bool remembers, struct gt_err *err);
void gt_bpe_worker_close(struct gt_bpe_worker *w);
/* Enlarge w->buffers[buffer] to at least n bytes. */
int gt_bpe_worker_reserve(struct gt_bpe_worker *w, int buffer, size_t n, struct gt_err *err);

/* word.c, wordpiece.c, unigram.c: the models. */
gt_bpe_word_fn gt_bpe_word_of_merges, gt_bpe_word_of_pieces, gt_bpe_word_of_scores;

/* Append the ids of a word to `out`. */
int gt_bpe_word(struct gt_bpe_worker *w, const unsigned char *p, size_t n, struct gt_bpe_ids *out,
    struct gt_err *err);

enum { GT_BPE_MARKS = 64 }; /* largest number of marks in a struct gt_bpe_chunk */

/* A chunk of a segment. It begins at byte `from`. It ends at the end of the first word that ends at
 * or after byte `until`. */
struct gt_bpe_chunk {
	const unsigned char *p; /* the segment [n] */
	size_t n, from, until;
	bool begins;   /* the segment is at the beginning of the text */
	bool prefixed; /* without stages: the prefix is put before the first word */
	size_t end;    /* result: the byte after the last word */
	struct gt_bpe_ids ids;
	/* Only with stages: marks at the beginnings of the first pieces of the chunk.
	 * Piece i begins at byte mark_at[i] of the segment; mark_ids[i] is the number of ids of the
	 * chunk before it. If `from` is a guess, and the previous chunk ends at a mark, the
	 * ids before this mark are dropped. */
	size_t marks;
	size_t mark_at[GT_BPE_MARKS], mark_ids[GT_BPE_MARKS];
};

/* Tokenize a chunk, with the stages of the tokenizer or where there are none: append its ids to
 * chunk->ids, and set chunk->end. gt_bpe_split_pieces() also sets the marks. */
int gt_bpe_split_pieces(struct gt_bpe_worker *w, struct gt_bpe_chunk *chunk, struct gt_err *err);
int gt_bpe_split_chars(struct gt_bpe_worker *w, struct gt_bpe_chunk *chunk, struct gt_err *err);
/* Without stages: return the first byte of the segment p [n], at or after `at`, where
 * a word certainly begins; n if there is none. */
size_t gt_bpe_chars_cut(const struct gt_bpe *bpe, const unsigned char *p, size_t n, size_t at);

#endif
