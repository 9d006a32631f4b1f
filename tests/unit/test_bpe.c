/* test_bpe.c - lib/data/bpe: ids by hand, fields that are refused, chunks, and damaged text. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "lib/base/buf.h"
#include "lib/data/bpe/inside.h"
#include "tests/unit/data_fixture.h"

/* A model with tokens of a, b and c; `more` are its other fields. */
#define TOKENS                                                                                     \
	"\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"bc\":5,\"\\u0120\":6,\"\\u0120a\":7,\"<s>\":8"
#define MERGES "[\"a b\",[\"\\u0120\",\"a\"],[\"b\",\"c\"],\"ab c\"]"
#define BYTE_LEVEL                                                                                 \
	"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define MODEL(more) "\"model\":{\"type\":\"BPE\",\"vocab\":{" TOKENS "},\"merges\":" MERGES more "}"

#define ADDED(tokens) "\"added_tokens\":[" tokens "],"
#define SPLIT(pattern)                                                                             \
	"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","        \
	"\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\",\"invert\":false},"     \
	"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}," MODEL("") "}"

/* A model of characters with these tokens more. */
#define MODEL_WITH(more)                                                                           \
	"\"model\":{\"type\":\"BPE\",\"vocab\":{" TOKENS more "},\"merges\":" MERGES "}"
/* Normalizers in a sequence; accents are tokens. */
#define NORMAL(list)                                                                               \
	"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" list                            \
	"]}," MODEL_WITH(",\"\\u0307\":10,\" \":11,\"\\u0301\":12,\"\\u00e9\":13") "}"
/* A Split by the letter b, with this behavior. */
#define CUT(behavior)                                                                              \
	"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"                   \
	"\"behavior\":\"" behavior "}," MODEL("") "}"
/* Pre_tokenizers in a sequence; punctuation is tokens. */
#define WORDS(list)                                                                                \
	"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" list                       \
	"]}," MODEL_WITH(",\"!\":10,\"?\":11,\"!?\":12") "}"
#define PIECES                                                                                     \
	"{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"WordPiece\","     \
	"\"vocab\":{\"[UNK]\":0,\"b\":1,\"a\":2,\"ab\":3,\"##c\":4,\"##b\":5,\".\":6},"            \
	"\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","                            \
	"\"max_input_chars_per_word\":8},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\"}}"
#define SCORES                                                                                     \
	"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":["         \
	"[\"<unk>\",0],[\"ab\",-2],[\"a\",-1.5],[\"b\",-1.5],[\"c\",-3],[\"<0xF0>\",-9],"          \
	"[\"<0x9F>\",-9],[\"<0x98>\",-9],[\"<0x80>\",-9],[\"abab\",-3.5]]}}"

static int collect(void *self, const int32_t *ids, size_t count, struct gt_err *err)
{
	return gt_bpe_ids_put(self, (const uint32_t *)ids, count, err);
}

/* The ids as text, "3 2". */
static const char *encode(const struct gt_bpe *bpe, const char *text, size_t size)
{
	static char line[4096];
	struct gt_bpe_ids ids = { 0 };
	struct gt_err err = GT_ERR_INIT;
	size_t used = 0;

	*line = '\0';
	if (gt_bpe_encode(bpe, text, size, collect, NULL, &ids, NULL, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < ids.count && used < sizeof(line) - 16; i++)
		used += (size_t)snprintf(
		    line + used, sizeof(line) - used, "%s%d", i ? " " : "", (int)ids.ids[i]);
	free(ids.ids);
	return line;
}

static const struct {
	const char *json, *text, *ids;
} encodings[] = {
	/* The lowest rank first, the leftmost of the same. */
	{ "{" BYTE_LEVEL "," MODEL("") "}", "abc", "4" },
	{ "{" BYTE_LEVEL "," MODEL("") "}", "bcab", "5 3" },
	{ "{" BYTE_LEVEL "," MODEL("") "}", "ab ab  a", "3 6 3 6 7" },
	{ "{" BYTE_LEVEL "," MODEL("") "}", "abcabcab", "4 4 3" },
	/* Symbols that are unknown vanish, or are unk_token. */
	{ "{" BYTE_LEVEL "," MODEL("") "}", "axb", "3" },
	{ "{" BYTE_LEVEL "," MODEL(",\"unk_token\":\"<s>\"") "}", "axyb", "0 8 8 1" },
	{ "{" BYTE_LEVEL "," MODEL(",\"unk_token\":\"<s>\",\"fuse_unk\":true") "}", "axyb",
	    "0 8 1" },
	/* Added tokens, one that takes white space. */
	{ "{" ADDED("{\"id\":8,\"content\":\"<s>\",\"rstrip\":true,\"special\":true}") BYTE_LEVEL
	    "," MODEL("") "}",
	    "ab<s>  c<s>", "3 8 2 8" },
	{ "{" ADDED("{\"id\":8,\"content\":\"<s>\"},{\"id\":9,\"content\":\"<s>x\"}") BYTE_LEVEL
	    "," MODEL("") "}",
	    "<s>xa<s>", "9 0 8" },
	{ "{" ADDED("{\"id\":8,\"content\":\"<s>\"},{\"id\":9,\"content\":\"<s>abcabc\"},"
	            "{\"id\":10,\"content\":\"<s>abd\"},{\"id\":11,\"content\":\"<t>\"},"
	            "{\"id\":12,\"content\":\"<s>a\"}") BYTE_LEVEL "," MODEL("") "}",
	    "<s>abcab<s>abcabc<t><s>ab<s", "12 5 3 9 11 12 1" },
	{ "{" ADDED("{\"id\":8,\"content\":\"<s>\",\"rstrip\":true,\"special\":true},"
	            "{\"id\":8,\"content\":\"<s>\"}") BYTE_LEVEL "," MODEL("") "}",
	    "ab<s>  c", "3 8 6 6 2" },
	/* A space before the text. */
	{ "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"}," MODEL("") "}", "ab", "6 3" },
	{ "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"}," MODEL("") "}", " ab", "6 3" },
	/* Patterns. */
	{ SPLIT("b"), "abc", "0 1 2" },
	{ SPLIT("[ab]+(?!c)|\\\\s"), "ab abc", "3 6 0 5" },
	{ SPLIT("(?<=a)b+"), "abc", "0 1 2" },
	{ SPLIT("[!&'\\\\-\\\\[^{}~][A-Za-z]+|[\\r\\n]+| ?\\u0061b"), "ab ab", "3 6 3" },
	{ SPLIT("cb{,2}"), "cbc", "2 1 2" },
	{ SPLIT("b{a}+|b{,|{}|b"), "abc", "0 1 2" },
	{ SPLIT("(?i:'s|'t|'ll|'re|B|ss+|s|t|[s]s)|ss|(?i:s)s"), "abc", "0 1 2" },
	/* Whole words first. */
	{ "{" BYTE_LEVEL "," MODEL(",\"ignore_merges\":true") "}", "abc", "4" },
	/* Characters. */
	{ "{" MODEL("") "}", "abcab", "4 3" },
	{ "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
	  "\"\\u0120\"}," MODEL("") "}",
	    "ab ab", "3 6 3" },
	{ "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u0120\"}," MODEL("") "}",
	    "ab b", "6 3 6 1" },
	{ "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u0120\","
	  "\"prepend_scheme\":\"never\"}," MODEL("") "}",
	    "ab b", "3 6 1" },
	{ "{" BYTE_LEVEL "," MODEL("") "}", "", "" },
	/* Settings of batches are not applied. */
	{ "{\"truncation\":{\"max_length\":1},\"padding\":{}," BYTE_LEVEL "," MODEL("") "}",
	    "abcab", "4 3" },
	/* Normalizers. An added token is found as it is once normalized. */
	{ NORMAL("{\"type\":\"NFC\"}"), "abe\xCC\x81 \xC3\xA9", "3 13 11 13" },
	{ NORMAL("{\"type\":\"NFD\"}"), "ab\xC3\xA9", "3 12" },
	{ NORMAL("{\"type\":\"NFKC\"}"),
	    "\xEF\xBD\x81\xEF\xBD\x82"
	    "c",
	    "4" },
	{ NORMAL("{\"type\":\"NFKD\"},{\"type\":\"StripAccents\"}"), "\xC3\xA1\xEF\xBD\x82", "3" },
	{ NORMAL("{\"type\":\"Lowercase\"}"), "AbC\xC4\xB0", "4 10" },
	{ NORMAL("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}"), "  a b ",
	    "0 11 1 11" },
	{ NORMAL("{\"type\":\"Prepend\",\"prepend\":\"a\"},{\"type\":\"Lowercase\"}"), "BC", "4" },
	{ NORMAL("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}"),
	    "a    b c", "0 11 1 11 2" },
	{ NORMAL("{\"type\":\"Replace\",\"pattern\":{\"String\":\"xy\"},\"content\":\"b\"}"),
	    "axycx", "4" },
	{ NORMAL("{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
	         "\"strip_accents\":null,\"lowercase\":true}"),
	    "A\xCC\x80\x01"
	    "B\t\xE4\xB8\xAD"
	    "c",
	    "3 11 11 11 2" },
	{ "{" ADDED(
	      "{\"id\":9,\"content\":\"<S>A\",\"normalized\":true}") "\"normalizer\":{\"type\":"
	                                                             "\"Lowercase\"}," BYTE_LEVEL
	                                                             "," MODEL("") "}",
	    "ab<s>ac", "3 9 2" },
	{ "{" ADDED(
	      "{\"id\":9,\"content\":\"c c\",\"normalized\":true}") "\"normalizer\":{\"type\":"
	                                                            "\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u0120\"}," MODEL(
	                                                                "") "}",
	    "ab c cb", "3 6 9 1" },
	/* Behaviors. */
	{ CUT("MergedWithPrevious\",\"invert\":false"), "abbcb", "3 1 2 1" },
	{ CUT("MergedWithNext\",\"invert\":false"), "abbcb", "0 1 5 1" },
	{ CUT("MergedWithNext\",\"invert\":true"), "abcab", "3 2 3" },
	{ CUT("Contiguous\",\"invert\":false"), "abcbb", "0 1 2 1 1" },
	{ CUT("Removed\",\"invert\":true"), "abbc", "1 1" },
	/* Other pre_tokenizers. */
	{ WORDS("{\"type\":\"Whitespace\"}"), "ab c!?\na", "3 2 10 11 0" },
	{ WORDS("{\"type\":\"WhitespaceSplit\"}"),
	    "ab c!\na\xE3\x80\x80"
	    "b",
	    "3 2 10 0 1" },
	{ WORDS("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}"), "ab!?c", "3 10 11 2" },
	{ WORDS("{\"type\":\"BertPreTokenizer\"}"), "a b!c", "0 1 10 2" },
	{ WORDS("{\"type\":\"Digits\"},{\"type\":\"WhitespaceSplit\"}"), "ab1b c", "3 1 2" },
	{ WORDS("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[^(\\\\s|[b!])]+\"},\"behavior\":"
	        "\"Isolated\"}"),
	    "abca|a", "0 1 2 0 0" },
	{ WORDS("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},{\"type\":"
	        "\"Split\",\"pattern\":{\"String\":\"\\u0120\"},\"behavior\":\"MergedWithNext\"}"),
	    "ab a", "3 7" },
	{ WORDS(
	      "{\"type\":\"WhitespaceSplit\"},{\"type\":\"Metaspace\",\"replacement\":\"\\u0120\","
	      "\"prepend_scheme\":\"first\"}"),
	    "ab b", "6 3 1" },
	/* Other models. */
	{ PIECES, "abcb xc b a abbbbbbbbb", "3 4 5 0 1 2 0" },
	{ SCORES,
	    "ababab\xF0\x9F\x98\x80"
	    "c?!b",
	    "1 9 5 6 7 8 4 0 3" },
};

static void test_encodings(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(encodings) / sizeof(*encodings); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_bpe *bpe;

		if (gt_bpe_parse(&bpe, encodings[i].json, strlen(encodings[i].json), &err))
			fail_msg("row %zu: %s", i, err.text);
		assert_string_equal(
		    encode(bpe, encodings[i].text, strlen(encodings[i].text)), encodings[i].ids);
		gt_bpe_close(bpe);
	}
}

/* NUL is a character like any other, in keys of the file, too. */
static void test_nul(void **state)
{
	static const char json[] =
	    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\\u0000\" :0,\"a\":1,\"\\u0000\":2,"
	    "\"\\\\u0000\":3},\"merges\":[[\"a\",\"\\u0000\"]]}}";
	struct gt_err err = GT_ERR_INIT;
	struct gt_bpe *bpe, *other;
	char *source;
	size_t n;

	(void)state;
	if (gt_bpe_parse(&bpe, json, strlen(json), &err))
		fail_msg("%s", err.text);
	assert_string_equal(encode(bpe, "a\0a\0\0", 5), "0 0 2");
	assert_memory_equal(gt_bpe_text(bpe, 3, false, &n), "\\u0000", 6);
	assert_int_equal(gt_bpe_source_with_begin(&source, bpe, 1, &err), 0);
	if (gt_bpe_parse(&other, source, strlen(source), &err))
		fail_msg("%s: %s", source, err.text);
	assert_string_equal(encode(other, "a\0", 2), "0");
	free(source);
	gt_bpe_close(other);
	gt_bpe_close(bpe);
}

static const struct {
	const char *json, *text, *decoded;
} decodings[] = {
	{ "{" BYTE_LEVEL "," MODEL("") "}", "ab a", "ab a" },
	{ PIECES, "abcb a b.", "abcb a [UNK]" },
	{ PIECES, "a b . b", "a b. b" },
	{ "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u0120\"},\"decoder\":{"
	  "\"type\":\"Metaspace\",\"replacement\":\"\\u0120\"}," MODEL("") "}",
	    "a b", "a b" },
	{ "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
	  "\"String\":\"b\"},\"content\":\" \"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
	  "\" \",\"start\":1,\"stop\":0}]}," MODEL("") "}",
	    "bbab", " a " },
	{ "{\"decoder\":{\"type\":\"Strip\",\"content\":\"b\",\"start\":0,\"stop\":1}," MODEL(
	      "") "}",
	    "abab", "aa" },
	{ SCORES, "ab\xF0\x9F\x98\x80", "ab\xF0\x9F\x98\x80" },
};

static void test_decodings(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(decodings) / sizeof(*decodings); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_bpe_ids ids = { 0 };
		struct gt_buf text = { 0 };
		struct gt_bpe *bpe;

		if (gt_bpe_parse(&bpe, decodings[i].json, strlen(decodings[i].json), &err) ||
		    gt_bpe_encode(bpe, decodings[i].text, strlen(decodings[i].text), collect, NULL,
		        &ids, NULL, &err))
			fail_msg("row %zu: %s", i, err.text);
		for (size_t k = 0; k < ids.count; k++) {
			size_t n;
			const char *token = gt_bpe_text(bpe, ids.ids[k], !k, &n);

			gt_buf_add(&text, token, n);
		}
		assert_string_equal(gt_buf_text(&text), decodings[i].decoded);
		gt_buf_release(&text);
		free(ids.ids);
		gt_bpe_close(bpe);
	}
}

/* A post_processor that puts "<s>" before a text. */
#define TEMPLATED(ids)                                                                             \
	"{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"        \
	"{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":" ids "}}}"
#define TEMPLATE(ids) "\"post_processor\":" TEMPLATED(ids)

/* The same tokenizer with another token before texts. */
static void check_with_begin(const struct gt_bpe *bpe, int32_t begin)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_bpe *other;
	char *source;

	assert_int_equal(gt_bpe_source_with_begin(&source, bpe, begin, &err), 0);
	if (gt_bpe_parse(&other, source, strlen(source), &err))
		fail_msg("%s: %s", source, err.text);
	assert_true(gt_bpe_adds_only(other, begin));
	assert_string_equal(encode(other, "abc", 3), "4");
	assert_int_equal(strstr(source, "trim_offsets") != NULL,
	    strstr(gt_bpe_source(bpe, &(size_t){ 0 }), "trim_offsets") != NULL);
	gt_bpe_close(other);
	free(source);
}

/* It is read, and no text gets the token. */
static void test_begin(void **state)
{
	static const struct {
		const char *json;
		int32_t begin;
		bool others; /* it adds other tokens, too */
	} rows[] = {
		{ "{" MODEL("") "}", -1, false },
		{ "{" TEMPLATE("[7]") "," MODEL("") "}", 7, false },
		{ "{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":"
		  "\"ByteLevel\",\"trim_offsets\":false}," TEMPLATED("[0]") "]}," MODEL("") "}",
		    0, false },
		{ "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":"
		  "{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"</s>\"}}]}," MODEL("") "}",
		    -1, true },
		{ "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
		  "{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}},"
		  "{\"SpecialToken\":{\"id\":\"</s>\"}}],"
		  "\"special_tokens\":{\"<s>\":{\"ids\":[7]}}}," MODEL("") "}",
		    7, true },
		{ "{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[" TEMPLATED(
		      "[0]") "," TEMPLATED("[7]") "]}," MODEL("") "}",
		    7, true },
		{ "{\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"</s>\",2],"
		  "\"cls\":[\"<s>\",0]}," MODEL("") "}",
		    -1, true },
		{ "{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":"
		  "[\"[CLS]\",0]}," MODEL("") "}",
		    -1, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_bpe *bpe;

		if (gt_bpe_parse(&bpe, rows[i].json, strlen(rows[i].json), &err))
			fail_msg("row %zu: %s", i, err.text);
		assert_int_equal(gt_bpe_begin(bpe), rows[i].begin);
		assert_int_equal(gt_bpe_adds_only(bpe, rows[i].begin), !rows[i].others);
		assert_string_equal(encode(bpe, "abc", 3), "4");
		check_with_begin(bpe, -1);
		check_with_begin(bpe, 8);
		gt_bpe_close(bpe);
	}
}

/* Each of these makes 16 letters of one. */
#define GROW                                                                                       \
	"{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaa\"}"
#define GROW_TIMES_8 GROW "," GROW "," GROW "," GROW "," GROW "," GROW "," GROW "," GROW

static const struct {
	const char *json;
	int code;
	const char *text; /* in the error */
} refusals[] = {
	{ "", GT_EFORMAT, "not JSON" },
	{ "[]", GT_EFORMAT, "must be an object" },
	{ "{}", GT_EFORMAT, "'model' must be an object" },
	{ "{\"extra\":1," MODEL("") "}", GT_ENOTSUP, "'extra' is not supported" },
	{ "{\"version\":\"2.0\"," MODEL("") "}", GT_ENOTSUP, "'version' is '2.0'" },
	{ "{\"version\":1.0," MODEL("") "}", GT_EFORMAT, "'version' must be a string" },
	{ "{\"normalizer\":{\"type\":\"Nmt\"}," MODEL("") "}", GT_ENOTSUP, "'Nmt'" },
	{ "{\"normalizer\":{\"type\":\"Precompiled\"}," MODEL("") "}", GT_EFORMAT, "not base64" },
	{ "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}," MODEL(
	      "") "}",
	    GT_EFORMAT, "charsmap is damaged" },
	{ "{\"normalizer\":{\"type\":\"NFC\",\"x\":1}," MODEL("") "}", GT_ENOTSUP, "'x'" },
	{ "{\"normalizer\":{\"type\":\"Sequence\"}," MODEL("") "}", GT_EFORMAT, "no list" },
	{ "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" \"}}," MODEL("") "}",
	    GT_EFORMAT, "'content'" },
	{ "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a(b\"},\"content\":"
	  "\"\"}," MODEL("") "}",
	    GT_EFORMAT, "malformed" },
	{ "{\"normalizer\":{\"type\":\"Prepend\"}," MODEL("") "}", GT_EFORMAT, "'prepend'" },
	{ "{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," MODEL("") "}", GT_ENOTSUP,
	    "'UnicodeScripts'" },
	{ "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":"
	  "\"Isolated\"}," MODEL("") "}",
	    GT_EFORMAT, "pattern of Split" },
	{ "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":"
	  "\"Odd\"}," MODEL("") "}",
	    GT_ENOTSUP, "'Odd' of Split" },
	{ "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"x\":1}," MODEL("") "}", GT_ENOTSUP, "'x'" },
	{ "{\"post_processor\":{\"type\":\"Odd\"}," MODEL("") "}", GT_ENOTSUP, "'Odd'" },
	{ "{" TEMPLATE("[]") "," MODEL("") "}", GT_EFORMAT, "no id for '<s>'" },
	{ "{" TEMPLATE("[7,8]") "," MODEL("") "}", GT_EFORMAT, "no id for '<s>'" },
	{ "{" TEMPLATE("[-1]") "," MODEL("") "}", GT_EFORMAT, "no id for '<s>'" },
	{ "{" TEMPLATE("[\"7\"]") "," MODEL("") "}", GT_EFORMAT, "no id for '<s>'" },
	{ "{\"decoder\":{\"type\":\"CTC\"}," MODEL("") "}", GT_ENOTSUP, "'CTC'" },
	{ "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
	  "\"ByteFallback\"}]}," MODEL("") "}",
	    GT_ENOTSUP, "'ByteFallback' is not supported in this place" },
	{ "{\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":-1}," MODEL("") "}",
	    GT_EFORMAT, "numbers of characters" },
	{ "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" GROW_TIMES_8 "]}," MODEL("") "}",
	    GT_ENOTSUP, "longer than 8192 bytes" },
	{ "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" GROW_TIMES_8
	  "]},\"added_tokens\":[{\"id\":9,\"content\":\"<a>\",\"normalized\":true}]," MODEL("") "}",
	    GT_ENOTSUP, "longer than 65728 bytes" },
	{ "{" MODEL(",\"dropout\":0.1") "}", GT_ENOTSUP, "'dropout'" },
	{ "{" MODEL(",\"end_of_word_suffix\":\"</w>\"") "}", GT_ENOTSUP, "'end_of_word_suffix'" },
	{ "{" MODEL(",\"unk_token\":\"?\"") "}", GT_EFORMAT, "'unk_token'" },
	{ "{" MODEL(",\"fuse_unk\":3") "}", GT_EFORMAT, "'fuse_unk' must be true or false" },
	{ "{" MODEL(",\"more\":3") "}", GT_ENOTSUP, "'more'" },
	{ "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", GT_ENOTSUP, "'WordLevel'" },
	{ "{\"model\":{\"type\":\"Unigram\",\"vocab\":{}}}", GT_EFORMAT, "must be a list" },
	{ "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}", GT_ENOTSUP, "'unk_id'" },
	{ "{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}}", GT_ENOTSUP,
	    "'unk_id'" },
	{ "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",\"0\"]]}}", GT_EFORMAT,
	    "token 0 is not a pair" },
	{ "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", GT_EFORMAT, "'unk_token'" },
	{ "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"unk_token\":\"a\"}}",
	    GT_EFORMAT, "'continuing_subword_prefix'" },
	{ "{\"model\":{\"vocab\":{},\"merges\":[]}}", GT_EFORMAT, "vocabulary is empty" },
	{ "{\"model\":{\"vocab\":{\"a\":4194304},\"merges\":[]}}", GT_EFORMAT,
	    "from 0 to 4194303" },
	{ "{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", GT_EFORMAT, "from 0 to 4194303" },
	{ "{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", GT_EFORMAT, "have the id 0" },
	{ "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", GT_EFORMAT, "merge 0" },
	{ "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", GT_EFORMAT, "not two tokens" },
	{ "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\",1]]}}", GT_EFORMAT,
	    "not two tokens" },
	{ "{\"added_tokens\":[{\"id\":12,\"content\":\"<x>\"}]," MODEL("") "}", GT_EFORMAT,
	    "has the id 12, but would be given 9" },
	{ "{\"added_tokens\":[{\"id\":8,\"content\":\"<s>\",\"single_word\":true}]," MODEL("") "}",
	    GT_ENOTSUP, "'single_word'" },
	{ "{\"added_tokens\":[{\"id\":8,\"content\":\"\"}]," MODEL("") "}", GT_EFORMAT, "content" },
	{ SPLIT("a(b"), GT_EFORMAT, "malformed" },
	{ SPLIT("a*"), GT_ENOTSUP, "empty text" },
	{ SPLIT("\\\\w+"), GT_ENOTSUP, "'\\w'" },
	{ SPLIT("\\\\bx"), GT_ENOTSUP, "'\\b'" },
	{ SPLIT("^x"), GT_ENOTSUP, "'^'" },
	{ SPLIT("x."), GT_ENOTSUP, "'.'" },
	{ SPLIT("[a[^b]]"), GT_ENOTSUP, "'[^'" },
	{ SPLIT("[a-[b]]"), GT_ENOTSUP, "'[b'" },
	{ SPLIT("[a[b]-c]"), GT_ENOTSUP, "']-'" },
	{ SPLIT("[a&&b]"), GT_ENOTSUP, "'&&'" },
	{ SPLIT("a{2}+"), GT_ENOTSUP, "'}+'" },
	{ SPLIT("a{,2}?b"), GT_ENOTSUP, "'}?'" },
	{ SPLIT("(?i:x|sS)"), GT_ENOTSUP, "ignores the case of 'ss'" },
	{ SPLIT("(?i:a(?:f)\\\\x49)"), GT_ENOTSUP, "ignores the case of 'fi'" },
	{ SPLIT("(?i)(?:a)st"), GT_ENOTSUP, "ignores the case of 'st'" },
	{ SPLIT("(?<n>a)"), GT_ENOTSUP, "'(?<n'" },
	{ SPLIT("(*UTF)a"), GT_ENOTSUP, "'(*'" },
	{ SPLIT("a(?i)b"), GT_ENOTSUP, "'(?i)'" },
	{ SPLIT("\\\\p{Alpha1}"), GT_ENOTSUP, "\\p{Alpha1}" },
	{ SPLIT("\\\\p{Nonsense}"), GT_EFORMAT, "malformed" },
};

static void test_refusals(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_bpe *bpe;
		int rc = gt_bpe_parse(&bpe, refusals[i].json, strlen(refusals[i].json), &err);

		if (rc != refusals[i].code || bpe || !strstr(err.text, refusals[i].text) ||
		    strchr(err.text, '\n'))
			fail_msg("row %zu: %d, '%s'", i, rc, err.text);
	}
}

/* A text of many chunks has the ids of its parts, wherever these are cut. */
static void test_chunks(void **state)
{
	static const char *const tokenizers[] = {
		"{" BYTE_LEVEL "," MODEL("") "}",
		"{" MODEL("") "}",
		/* Guesses are wrong: words of 7 bytes begin where the one before ends. */
		SPLIT("[abc ]{7}"),
		"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"}," MODEL("") "}",
		CUT("MergedWithPrevious\""),
		CUT("MergedWithNext\""),
		CUT("Contiguous\""),
		"{\"normalizer\":{\"type\":\"NFC\"}," BYTE_LEVEL "," MODEL("") "}",
	};
	enum { SIZE = 3000017 };
	char *text = malloc(SIZE);

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < SIZE; i++)
		text[i] = "abcab c"[(i * 2654435761u >> 7) % 7];
	for (size_t i = 0; i < sizeof(tokenizers) / sizeof(*tokenizers); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_bpe_ids all = { 0 };
		struct gt_bpe_worker *w;
		struct gt_bpe *bpe;
		/* As one chunk. */
		struct gt_bpe_chunk one = { .p = (unsigned char *)text, .n = SIZE, .until = SIZE };

		assert_int_equal(gt_bpe_parse(&bpe, tokenizers[i], strlen(tokenizers[i]), &err), 0);
		text[0] = ' ';
		assert_int_equal(gt_bpe_worker_open(&w, bpe, true, &err), 0);
		assert_int_equal(gt_bpe_has_pieces(bpe) ? gt_bpe_split_pieces(w, &one, &err)
		                                        : gt_bpe_split_chars(w, &one, &err),
		    0);
		assert_int_equal(
		    gt_bpe_encode(bpe, text, SIZE, collect, NULL, &all, NULL, &err), 0);
		assert_int_equal(all.count, one.ids.count);
		assert_memory_equal(all.ids, one.ids.ids, all.count * sizeof(*all.ids));
		free(all.ids);
		free(one.ids.ids);
		gt_bpe_worker_close(w);
		gt_bpe_close(bpe);
	}
	free(text);
}

/* Merging a long word with a heap gives the same ids as looking at all pairs. */
static void test_long_words(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_bpe_scratch s = { 0 };
	struct gt_bpe *bpe;
	const char *json = "{" BYTE_LEVEL "," MODEL("") "}";

	(void)state;
	assert_int_equal(gt_bpe_parse(&bpe, json, strlen(json), &err), 0);
	for (size_t n = 1; n < 300; n++) {
		uint32_t plain[300];
		size_t kept = n, count = n;

		assert_int_equal(gt_bpe_scratch_reserve(&s, n, &err), 0);
		for (size_t i = 0; i < n; i++)
			plain[i] = s.ids[i] = (uint32_t)((i * i + n * i / 3) % 3);
		for (;;) {
			const struct gt_bpe_merge *best = NULL;
			size_t at = 0;

			for (size_t i = 0; i + 1 < kept; i++) {
				const struct gt_bpe_merge *m =
				    gt_bpe_merges_find(&bpe->vocab, plain[i], plain[i + 1]);

				if (m && (!best || m->rank < best->rank)) {
					best = m;
					at = i;
				}
			}
			if (!best)
				break;
			plain[at] = best->id;
			memmove(plain + at + 1, plain + at + 2, (kept - at - 2) * sizeof(*plain));
			kept--;
		}
		assert_int_equal(gt_bpe_merge_word(&bpe->vocab, &s, &count, &err), 0);
		assert_int_equal(count, kept);
		assert_memory_equal(s.ids, plain, kept * sizeof(*plain));
	}
	gt_bpe_scratch_release(&s);
	gt_bpe_close(bpe);
}

/* Write to the text, at random, until the parent ends it. It is mostly UTF-8, or else it would be
 * copied when it is looked through. */
/* ---- tokenizers that are made to take long ---- */

/* Which keys collide is another matter in each vocabulary, so a file cannot choose them. */
static void test_keys(void **state)
{
	struct gt_bpe_vocab v[2] = { 0 };
	struct gt_err err = GT_ERR_INIT;
	const unsigned char *text = (const unsigned char *)"a text of some bytes";

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(gt_bpe_vocab_init(&v[i], 4, &err), 0);
	for (size_t n = 1; n <= 20; n++)
		assert_true(gt_bpe_hash(&v[0].key, text, n) != gt_bpe_hash(&v[1].key, text, n));
	assert_true(gt_bpe_hash_pair(&v[0].key, 1, 2) != gt_bpe_hash_pair(&v[1].key, 1, 2));
	for (int i = 0; i < 2; i++)
		gt_bpe_vocab_release(&v[i]);
}

/* Encode `size` bytes that are all the same. Returns the number of ids, or an error. */
static int encode_same(const char *json, char byte, size_t size, struct gt_err *err)
{
	struct gt_bpe_ids ids = { 0 };
	char *text = malloc(size);
	struct gt_bpe *bpe;
	int rc;

	assert_non_null(text);
	memset(text, byte, size);
	if (gt_bpe_parse(&bpe, json, strlen(json), err))
		fail_msg("%s", err->text);
	rc = gt_bpe_encode(bpe, text, size, collect, NULL, &ids, NULL, err);
	rc = rc ? rc : (int)ids.count;
	gt_bpe_close(bpe);
	free(ids.ids);
	free(text);
	return rc;
}

/* Patterns that try again a million times at each place, and at one place only. */
static void test_slow_patterns(void **state)
{
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(encode_same(SPLIT("a{0,1500}a{0,1500}b|a"), 'a', 20000, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "the tokenizer's pattern takes too long"));
	assert_int_equal(encode_same(SPLIT("a{0,40}a{0,40}b|a"), 'a', 2000, &err), 2000);
	assert_int_equal(encode_same(SPLIT("(?: )+x|(?: )+(?! )|a"), ' ', 9000, &err), 9000);
}

static _Noreturn void write_for_ever(volatile unsigned char *text, size_t size)
{
	static const unsigned char bytes[] = "\x80\xC4\xA0\xE2\x96\x81\xF0\xFF";
	uint64_t x = 88172645463325252u;

	for (;;) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		text[x % size] = bytes[(x >> 40) % (sizeof(bytes) - 1)];
		text[x % size] = "ab c"[x >> 60 & 3];
	}
}

/* A mapped file changes while it is tokenized: some ids come, or an error, and every id is one. */
static void test_changing_text(void **state)
{
	static const char *const tokenizers[] = {
		"{" BYTE_LEVEL "," MODEL("") "}",
		"{" MODEL(",\"unk_token\":\"<s>\"") "}",
		SPLIT("(?<=a)b+|\\\\p{L}+?(?=c)|[^a]"),
		"{" ADDED("{\"id\":8,\"content\":\"<s>\",\"lstrip\":true}") BYTE_LEVEL
		"," MODEL("") "}",
	};
	enum { SIZE = 300000, ROUNDS = 10 };
	unsigned char *text =
	    mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t writer;

	(void)state;
	assert_ptr_not_equal(text, MAP_FAILED);
	memset(text, 'a', SIZE);
	writer = fork();
	if (!writer)
		write_for_ever(text, SIZE);
	for (size_t i = 0; i < ROUNDS * sizeof(tokenizers) / sizeof(*tokenizers); i++) {
		const char *json = tokenizers[i / ROUNDS];
		struct gt_bpe_ids ids = { 0 };
		struct gt_err err = GT_ERR_INIT;
		struct gt_bpe *bpe;
		int rc;

		assert_int_equal(gt_bpe_parse(&bpe, json, strlen(json), &err), 0);
		rc = gt_bpe_encode(bpe, (char *)text, SIZE, collect, NULL, &ids, NULL, &err);
		assert_true(!rc || rc == GT_EFORMAT);
		for (size_t k = 0; k < ids.count; k++)
			assert_in_range(ids.ids[k], 0, 8);
		free(ids.ids);
		gt_bpe_close(bpe);
	}
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	munmap(text, SIZE);
}

static void test_repair(void **state)
{
	static const struct {
		const char *text, *repaired;
		int parts;
	} rows[] = {
		{ "plain text", NULL, 0 },
		{ "\xC3\xA9t\xC3\xA9 \xF0\x9F\x98\x80", NULL, 0 },
		{ "a\xFFz", "a\xEF\xBF\xBDz", 1 },
		{ "\xC3\xC3\xA9", "\xEF\xBF\xBD\xC3\xA9", 1 },
		{ "long enough\xE2\x82", "long enough\xEF\xBF\xBD", 1 },
		{ "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 3 },
		{ "\xF0\x9F\x98x", "\xEF\xBF\xBDx", 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_err err = GT_ERR_INIT;
		unsigned char *out;
		size_t size;
		int64_t parts;

		assert_int_equal(
		    gt_bpe_repair(&out, &size, &parts, (const unsigned char *)rows[i].text,
		        strlen(rows[i].text), &err),
		    0);
		assert_int_equal(parts, rows[i].parts);
		assert_int_equal(!out, !rows[i].repaired);
		if (out) {
			assert_int_equal(size, strlen(rows[i].repaired));
			assert_memory_equal(out, rows[i].repaired, size);
		}
		free(out);
	}
}

/* Errors of two tokenizers' files, and of folders without one. */
static void test_files(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct fixture f;
	struct gt_bpe *bpe;

	(void)state;
	fixture_open(&f);
	assert_int_equal(
	    gt_bpe_open(&bpe, (struct gt_file_name){ .path = f.folder }, &err), GT_EIO);
	assert_non_null(strstr(err.text, "holds no tokenizer"));
	put_text(&f, "vocab.json", "{" TOKENS ",\"<|endoftext|>\":9}");
	put_text(&f, "merges.txt", "#version: 0.2\na b\n\xC4\xA0 a\nb c\nab c\n");
	assert_int_equal(gt_bpe_open(&bpe, (struct gt_file_name){ .path = f.folder }, &err), 0);
	assert_string_equal(encode(bpe, "abc<|endoftext|> ab", 19), "4 9 6 3");
	assert_int_equal(gt_bpe_size(bpe), 10);
	gt_bpe_close(bpe);
	put_text(&f, "merges.txt", "a b\na\n");
	assert_int_equal(
	    gt_bpe_open(&bpe, (struct gt_file_name){ .path = f.folder }, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "merges.txt: line 2"));
	put_text(&f, "tokenizer.json", "{");
	assert_int_equal(
	    gt_bpe_open(&bpe, (struct gt_file_name){ .path = f.folder }, &err), GT_EFORMAT);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_encodings),
		cmocka_unit_test(test_begin),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_nul),
		cmocka_unit_test(test_decodings),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_long_words),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_slow_patterns),
		cmocka_unit_test(test_changing_text),
		cmocka_unit_test(test_repair),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
