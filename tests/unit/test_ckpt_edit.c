/* test_ckpt_edit.c - strings exchanged in pickles; edits computed, applied and refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/write.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* ---- strings of a pickle ---- */

#define P(text) text, sizeof(text) - 1

/* `to` has the texts that the uses become, in their order; NULL: as they are. */
static const struct {
	const char *name, *before;
	size_t before_size;
	const char *to[4], *after;
	size_t after_size;
} splices[] = {
	{ "the memo keeps what it has", P("\x80\2]q\0(X\2\0\0\0abq\1h\1X\1\0\0\0ch\1e."), { NULL },
	    P("\x80\2]q\0(X\2\0\0\0abq\1h\1X\1\0\0\0ch\1e.") },
	{ "the first use alone", P("\x80\2]q\0(X\2\0\0\0abq\1h\1h\1e."), { "x" },
	    P("\x80\2]q\0(X\1\0\0\0xq\1X\2\0\0\0abX\2\0\0\0abe.") },
	{ "a later use alone", P("\x80\2]q\0(X\2\0\0\0abq\1h\1h\1e."), { NULL, "x" },
	    P("\x80\2]q\0(X\2\0\0\0abq\1X\1\0\0\0xh\1e.") },
	{ "all uses alike", P("\x80\2]q\0(X\2\0\0\0abq\1h\1j\1\0\0\0e."), { "xyz", "xyz", "xyz" },
	    P("\x80\2]q\0(X\3\0\0\0xyzq\1h\1j\1\0\0\0e.") },
	{ "all uses apart", P("\x80\2]q\0(X\2\0\0\0abq\1h\1h\1e."), { "x", "", "z" },
	    P("\x80\2]q\0(X\1\0\0\0xq\1X\0\0\0\0X\1\0\0\0ze.") },
	{ "two strings of one text are two", P("\x80\2(X\1\0\0\0aX\1\0\0\0at."), { "b" },
	    P("\x80\2(X\1\0\0\0bX\1\0\0\0at.") },
	{ "the example in edit.h", P("\x80\2}q\0(X\3\0\0\0m.wq\1K\1X\1\0\0\0xq\2h\1u."), { "w" },
	    P("\x80\2}q\0(X\1\0\0\0wq\1K\1X\1\0\0\0xq\2X\3\0\0\0m.wu.") },
	{ "DUP", P("\x80\2X\1\0\0\0a2\x86."), { NULL, "bc" },
	    P("\x80\2X\1\0\0\0aX\2\0\0\0bc\x86.") },
	{ "Python 2's strings stay that", P("\x80\2U\1aq\1h\1\x86."), { "b", "c" },
	    P("\x80\2U\1bq\1U\1c\x86.") },
	{ "text of protocol 0", P("(Va\np1\ng1\nS'b'\nt."), { "x", NULL, "y" },
	    P("(X\1\0\0\0xp1\nX\1\0\0\0aT\1\0\0\0yt.") },
	{ "frames are measured again",
	    P("\x80\4\x95\7\0\0\0\0\0\0\0]\x94(\x8c\1a\x94\x95\5\0\0\0\0\0\0\0h\1h\1e."),
	    { "abc", "abc" },
	    P("\x80\4\x95\x09\0\0\0\0\0\0\0]\x94(\x8c\3abc\x94\x95\6\0\0\0\0\0\0\0h\1\x8c\1ae.") },
};

static void exchange(const char *before, size_t size, const char *const *to, size_t to_count,
    unsigned char **after, size_t *after_size)
{
	struct gt_pickle_layout layout = { 0 };
	struct gt_pickle_hooks hooks = { .layout = &layout };
	struct gt_pickle_change *changes = calloc(to_count, sizeof(*changes));
	struct gt_arena arena = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_tree *root;
	size_t used, n = 0;

	assert_non_null(changes);
	assert_int_equal(
	    gt_pickle_read(&root, &arena, (const unsigned char *)before, size, &used, &hooks, &err),
	    0);
	assert_int_equal(used, size);
	for (size_t i = 0; i < to_count; i++) {
		if (!to[i])
			continue;
		assert_true(i < layout.use_count);
		changes[n++] = (struct gt_pickle_change){ layout.uses[i].at, to[i] };
	}
	assert_int_equal(gt_pickle_edit(after, after_size, (const unsigned char *)before, size,
	                     &layout, changes, n, &err),
	    0);
	free(changes);
	gt_pickle_layout_release(&layout);
	gt_arena_release(&arena);
}

static void exchanges_strings(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(splices); i++) {
		unsigned char *after;
		size_t size;

		exchange(splices[i].before, splices[i].before_size, splices[i].to,
		    COUNT(splices[i].to), &after, &size);
		if (size != splices[i].after_size || memcmp(after, splices[i].after, size))
			print_error("%s\n", splices[i].name);
		assert_int_equal(size, splices[i].after_size);
		assert_memory_equal(after, splices[i].after, size);
		free(after);
	}
}

static void widens_long_strings(void **state)
{
	static const char *const before[] = { "\x80\2U\1a.", "\x80\4\x8c\1a." };
	static const char op[] = { 'T', 'X' };
	char text[301];
	const char *const to[] = { text };

	(void)state;
	memset(text, 'x', 300);
	text[300] = '\0';
	for (int i = 0; i < 2; i++) {
		unsigned char *after;
		size_t size;

		exchange(before[i], 6, to, 1, &after, &size);
		assert_int_equal(size, 2 + 5 + 300 + 1);
		assert_int_equal(after[2], op[i]);
		assert_int_equal(gt_get_le(after + 3, 4), 300);
		free(after);
	}
}

static void refuses_what_is_no_string(void **state)
{
	static const unsigned char pickle[] = "\x80\2X\1\0\0\0aK\1\x86.";
	struct gt_pickle_layout layout = { 0 };
	struct gt_pickle_hooks hooks = { .layout = &layout };
	struct gt_arena arena = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_tree *root;
	unsigned char *after;
	size_t used;

	(void)state;
	assert_int_equal(
	    gt_pickle_read(&root, &arena, pickle, sizeof(pickle) - 1, &used, &hooks, &err), 0);
	for (size_t at = 0; at < used; at++) {
		struct gt_pickle_change change = { at, "b" };
		int rc = gt_pickle_edit(&after, &used, pickle, used, &layout, &change, 1, &err);

		assert_int_equal(rc, at == 2 ? 0 : GT_EINVAL);
		if (!rc)
			free(after);
		used = sizeof(pickle) - 1;
	}
	gt_pickle_layout_release(&layout);
	gt_arena_release(&arena);
}

/* A list of strings, new ones and old ones by the memo: each element becomes the wanted text. */
static void exchanges_at_random(void **state)
{
	enum { ELEMENTS = 60, ROUNDS = 300 };
	unsigned seed = (unsigned)time(NULL);

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (int round = 0; round < ROUNDS; round++) {
		unsigned char before[16 * ELEMENTS] = "\x80\2(", *p = before + 3, *after;
		char texts[ELEMENTS][8], wanted[ELEMENTS][8], memo[ELEMENTS][8];
		const char *to[ELEMENTS] = { NULL };
		struct gt_err err = GT_ERR_INIT;
		struct gt_arena arena = { 0 };
		struct gt_tree *root;
		int memo_count = 0;
		size_t size, used;

		for (int i = 0; i < ELEMENTS; i++) {
			int which = rand() % (memo_count + 1);

			if (which < memo_count) {
				strcpy(texts[i], memo[which]);
				*p++ = 'h';
				*p++ = (unsigned char)which;
			} else {
				size_t length = (size_t)sprintf(texts[i], "%d", rand() % 1000);

				*p++ = "UX"[rand() % 2];
				p = gt_put_le(p, length, p[-1] == 'X' ? 4 : 1);
				memcpy(p, texts[i], length);
				p += length;
				*p++ = 'q';
				*p++ = (unsigned char)memo_count;
				strcpy(memo[memo_count++], texts[i]);
			}
			strcpy(wanted[i], texts[i]);
			if (rand() % 3)
				continue;
			sprintf(wanted[i], "%d", rand() % 4);
			to[i] = wanted[i];
		}
		*p++ = 't';
		*p++ = '.';
		exchange((char *)before, (size_t)(p - before), to, ELEMENTS, &after, &size);
		assert_int_equal(gt_pickle_read(&root, &arena, after, size, &used, NULL, &err), 0);
		assert_int_equal(used, size);
		assert_int_equal(root->seq.count, ELEMENTS);
		for (int i = 0; i < ELEMENTS; i++)
			assert_string_equal(root->seq.items[i].value->string.bytes, wanted[i]);
		free(after);
		gt_arena_release(&arena);
	}
}

/* ---- files ---- */

struct fixture {
	char folder[64], path[96], out[96];
	struct gt_arena arena;
	struct gt_err err;
	struct gt_ckpt *ckpt;
	struct gt_edit edit;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	snprintf(f->folder, sizeof(f->folder), "/tmp/gtrain-test-XXXXXX");
	if (!mkdtemp(f->folder))
		return -1;
	snprintf(f->path, sizeof(f->path), "%s/file.pth", f->folder);
	snprintf(f->out, sizeof(f->out), "%s/out.pth", f->folder);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	gt_edit_release(&f->edit);
	gt_ckpt_close(f->ckpt);
	unlink(f->path);
	unlink(f->out);
	rmdir(f->folder);
	gt_arena_release(&f->arena);
	free(f);
	return 0;
}

/* A file {"model": {name: tensor, ...}, "step": 3}, open. */
static void make_file(struct fixture *f, const char *const *names)
{
	static const float data[] = { 1, 2, 3, 4 };
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);
	struct gt_tree *model = gt_tree_dict(&f->arena, &f->err);
	int64_t shape = COUNT(data);

	for (; *names; names++)
		assert_int_equal(gt_tree_set(model, *names,
		                     gt_tree_tensor(&f->arena, GT_F32, 1, &shape, data, &f->err),
		                     &f->arena, &f->err),
		    0);
	gt_tree_set(root, "model", model, &f->arena, &f->err);
	gt_tree_set(root, "step", gt_tree_int(&f->arena, 3, &f->err), &f->arena, &f->err);
	assert_int_equal(gt_torch_save((struct gt_file_name){ .path = f->path }, root, &f->err), 0);
	assert_int_equal(gt_ckpt_open(&f->ckpt, f->path, &f->err), 0);
}

static int compute(struct fixture *f, enum gt_edit_kind kind, const char *const *words)
{
	struct gt_edit_request request = { kind, words };

	return gt_edit_compute(&f->edit, f->ckpt, &request, &f->err);
}

static const char *const wrapped[] = { "module.conv.weight", "module.conv.bias",
	"_orig_mod.module.fc.weight", "fc.bias", NULL };

static const struct {
	const char *name;
	enum gt_edit_kind kind;
	const char *words[3];
	const char *first, *third, *last, *note;
	size_t count;
} edits[] = {
	{ "strip", GT_EDIT_STRIP, { NULL }, "conv.weight", "fc.weight", "fc.bias",
	    "'module.' and '_orig_mod.' removed from 3 names in 1 state_dict", 3 },
	{ "strip one", GT_EDIT_STRIP, { "module." }, "conv.weight", "_orig_mod.module.fc.weight",
	    "fc.bias", "'module.' removed from 2 names in 1 state_dict", 2 },
	{ "strip none", GT_EDIT_STRIP, { "net." }, "module.conv.weight",
	    "_orig_mod.module.fc.weight", "fc.bias",
	    "nothing to change: no name starts with 'net.' in 1 state_dict", 0 },
	{ "add", GT_EDIT_ADD, { NULL }, "module.module.conv.weight",
	    "module._orig_mod.module.fc.weight", "module.fc.bias",
	    "'module.' put before 4 names in 1 state_dict", 4 },
	{ "rename", GT_EDIT_RENAME, { "^module\\.(.*)\\.=\\1_", "fc=head" }, "conv_weight",
	    "_orig_mod.module.head.weight", "head.bias", "4 names changed in 1 state_dict", 4 },
};

static void computes_and_applies(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < 2 * COUNT(edits); i++) {
		const char *wanted[] = { edits[i / 2].first, edits[i / 2].third,
			edits[i / 2].last };
		const bool in_place = i % 2;
		struct gt_edit_target target = { f->path, in_place ? NULL : f->out,
			.no_sync = true };
		struct gt_edit_result result;
		const struct gt_tree *model;

		make_file(f, wrapped);
		assert_int_equal(compute(f, edits[i / 2].kind, edits[i / 2].words), 0);
		assert_string_equal(f->edit.note, edits[i / 2].note);
		assert_int_equal(f->edit.count, edits[i / 2].count);
		assert_int_equal(gt_edit_apply(f->ckpt, &f->edit, &target, &result, &f->err), 0);
		assert_int_equal(result.dead_bytes > 0, in_place && f->edit.count);
		gt_edit_release(&f->edit);
		gt_ckpt_close(f->ckpt);
		assert_int_equal(gt_ckpt_open(&f->ckpt, in_place ? f->path : f->out, &f->err), 0);
		assert_int_equal(gt_digest_check(f->ckpt, true, NULL, &f->err), 0);
		model = gt_tree_get(gt_ckpt_root(f->ckpt), "model");
		for (size_t k = 0; k < COUNT(wanted); k++) {
			const struct gt_tree *t = gt_tree_get(model, wanted[k]);
			float data[4];

			assert_non_null(t);
			assert_int_equal(gt_ckpt_tensor_read(&t->tensor, GT_F32, data, &f->err), 0);
			assert_true(data[0] == 1 && data[3] == 4);
		}
		assert_non_null(gt_tree_get(gt_ckpt_root(f->ckpt), "step"));
		gt_ckpt_close(f->ckpt);
		f->ckpt = NULL;
		unlink(f->out);
	}
}

static const struct {
	enum gt_edit_kind kind;
	const char *words[2];
	int code;
	const char *text;
} refusals[] = {
	{ GT_EDIT_STRIP, { "module" }, GT_EINVAL, "'module' is not a prefix" },
	{ GT_EDIT_STRIP, { "" }, GT_EINVAL, "'' is not a prefix" },
	{ GT_EDIT_RENAME, { "(" }, GT_EINVAL, "'(' is not REGEX=REPLACEMENT" },
	{ GT_EDIT_RENAME, { ".*=" }, GT_EFORMAT,
	    "'module.conv.weight' would be left without a name" },
	{ GT_EDIT_RENAME, { "conv=\xff" }, GT_EFORMAT,
	    "'module.conv.weight' would become text that is not UTF-8" },
	{ GT_EDIT_RENAME, { "^.*conv.*$=x" }, GT_EFORMAT,
	    "1 name of 'model' would be there twice: 'module.conv.weight' and 'module.conv.bias' "
	    "become 'x'" },
	{ GT_EDIT_REMAP, { "cpu" }, GT_EINVAL, "'cpu': not FROM=TO" },
	{ GT_EDIT_REMAP, { "cpu=gpu" }, GT_EINVAL, "'cpu=gpu': no device has the name after '='" },
	{ GT_EDIT_REMAP, { "cpu=cuda:*" }, GT_EINVAL,
	    "'cpu=cuda:*': no device has the name after '='" },
	{ GT_EDIT_REMAP, { "cpu=cuda:-1" }, GT_EINVAL,
	    "'cpu=cuda:-1': no device has the name after '='" },
	{ GT_EDIT_REMAP, { "cdua:0=cpu" }, GT_EINVAL,
	    "'cdua:0=cpu': the name before '=' is neither a device nor in the file" },
};

static void refuses_what_is_wrong(void **state)
{
	struct fixture *f = *state;

	make_file(f, wrapped);
	for (size_t i = 0; i < COUNT(refusals); i++) {
		assert_int_equal(compute(f, refusals[i].kind, refusals[i].words), refusals[i].code);
		assert_string_equal(f->err.text, refusals[i].text);
		assert_int_equal(f->edit.count, 0);
	}
}

/* {"module.a.weight": tensor, "epoch": 3} is one; {"rng": tensor, "epoch": 3} is none. */
static void numbers_may_stand_beside_names(void **state)
{
	static const struct {
		const char *name;
		int rc;
	} cases[] = { { "module.a.weight", 0 }, { "rng", GT_EFORMAT } };
	struct fixture *f = *state;
	int64_t shape = 0;

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_edit_request request = { GT_EDIT_ADD, NULL };
		struct gt_ckpt ckpt = { .root = gt_tree_dict(&f->arena, &f->err) };
		struct gt_tree *tensor =
		    gt_tree_tensor(&f->arena, GT_F32, 1, &shape, NULL, &f->err);
		struct gt_edit edit;

		gt_tree_set(
		    ckpt.root, "epoch", gt_tree_int(&f->arena, 3, &f->err), &f->arena, &f->err);
		gt_tree_set(ckpt.root, cases[i].name, tensor, &f->arena, &f->err);
		assert_int_equal(gt_edit_compute(&edit, &ckpt, &request, &f->err), cases[i].rc);
		assert_int_equal(edit.count, cases[i].rc ? 0 : 1);
		gt_edit_release(&edit);
	}
	assert_non_null(strstr(f->err.text, "'epoch' is not a tensor"));
}

/* With several it is worth saying which. */
static void says_which_dicts(void **state)
{
	static const char *const names[] = { "model", "ema", "buffers" };
	struct fixture *f = *state;
	struct gt_edit_request request = { GT_EDIT_STRIP, NULL };
	struct gt_ckpt ckpt = { .root = gt_tree_dict(&f->arena, &f->err) };
	int64_t shape = 0;

	for (size_t i = 0; i < COUNT(names); i++) {
		struct gt_tree *dict = gt_tree_dict(&f->arena, &f->err);

		gt_tree_set(dict, i < 2 ? "module.w" : "w",
		    gt_tree_tensor(&f->arena, GT_F32, 1, &shape, NULL, &f->err), &f->arena,
		    &f->err);
		gt_tree_set(ckpt.root, names[i], dict, &f->arena, &f->err);
	}
	assert_int_equal(gt_edit_compute(&f->edit, &ckpt, &request, &f->err), 0);
	assert_string_equal(f->edit.dicts_note,
	    "names changed in 'model', 'ema'; not taken for state_dicts: 'buffers'");
}

static int apply(struct fixture *f, const char *out)
{
	struct gt_edit_target target = { f->path, out, .no_sync = true };

	return gt_edit_apply(f->ckpt, &f->edit, &target, NULL, &f->err);
}

static void refuses_another_file(void **state)
{
	struct fixture *f = *state;
	int fd;

	make_file(f, wrapped);
	assert_int_equal(compute(f, GT_EDIT_STRIP, NULL), 0);
	assert_int_equal(link(f->path, f->out), 0);
	assert_int_equal(apply(f, f->out), GT_EINVAL);
	assert_non_null(strstr(f->err.text, "is the input itself"));
	unlink(f->out);

	fd = open(f->path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(apply(f, NULL), GT_EIO);
	assert_non_null(strstr(f->err.text, "is being edited by process"));
	assert_int_equal(flock(fd, LOCK_UN), 0);

	/* The same bytes, but somebody has written: clocks may be too coarse to tell. */
	assert_int_equal(futimens(fd, (struct timespec[2]){ { 0, UTIME_OMIT }, { 1, 0 } }), 0);
	close(fd);
	assert_int_equal(apply(f, NULL), GT_EIO);
	assert_non_null(strstr(f->err.text, "has changed"));
	assert_int_equal(apply(f, f->out), GT_EIO);
	assert_int_equal(access(f->out, F_OK), -1);
}

/* A writer during which somebody touches the input, if `self` names it. */
static int touch_meanwhile(void *self, int fd, struct gt_err *err)
{
	const struct timespec times[2] = { { 0, UTIME_OMIT }, { 1, 0 } };

	(void)fd;
	(void)err;
	if (self)
		assert_int_equal(utimensat(AT_FDCWD, self, times, 0), 0);
	return 0;
}

/* A process that writes into the input while it is copied makes the copy worthless. */
static void refuses_what_changed_meanwhile(void **state)
{
	struct fixture *f = *state;
	struct gt_edit_target target = { f->path, f->out, .no_sync = true };

	make_file(f, wrapped);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(gt_edit_replace(f->ckpt, &target, touch_meanwhile,
		                     round ? f->path : NULL, &f->err),
		    round ? GT_EIO : 0);
		assert_int_equal(access(f->out, F_OK), round ? -1 : 0);
		unlink(f->out);
	}
	assert_non_null(strstr(f->err.text, "has changed since it was opened"));
}

/* ---- bytes from file to file ---- */

static void copies_ranges(void **state)
{
	enum { SIZE = 3 * GT_COPY_BLOCK + 77 };
	static const uint64_t places[][3] = { { 0, 0, SIZE }, { 5, 5, SIZE - 5 },
		{ 7, 100, SIZE - 7 }, { 4090, 4090 + GT_COPY_BLOCK, 20 },
		{ 1, 4097, 2 * GT_COPY_BLOCK }, { 3, 9, 0 } };
	struct fixture *f = *state;
	unsigned char data[SIZE], back[SIZE];
	int in = open(f->path, O_RDWR | O_CREAT, 0600), out = open(f->out, O_RDWR | O_CREAT, 0600);

	for (size_t i = 0; i < SIZE; i++)
		data[i] = (unsigned char)(i * 2654435761u >> 11);
	assert_int_equal(gt_write_at(in, 0, data, SIZE, &f->err), 0);
	for (size_t i = 0; i < COUNT(places); i++) {
		uint64_t from = places[i][0], to = places[i][1], size = places[i][2];

		assert_int_equal(gt_copy_range(out, to, in, from, size, i % 2, &f->err), 0);
		assert_int_equal(pread(out, back, size, (off_t)to), size);
		assert_memory_equal(back, data + from, size);
	}
	assert_int_equal(gt_copy_range(out, 0, in, 10, SIZE, false, &f->err), GT_EIO);
	assert_string_equal(f->err.text, GT_MAP_SHRANK);
	close(in);
	in = open(f->path, O_WRONLY); /* the kernel refuses, and so does the plain loop */
	assert_int_equal(gt_copy_range(out, 0, in, 0, 10, false, &f->err), GT_EIO);
	close(in);
	close(out);
}

/* A clock on which a second passes with each look. */
static double hurry(void *seconds)
{
	return *(double *)seconds += 1;
}

/* A copy that takes more than a second shows its bytes, in every format. */
static void a_slow_copy_has_a_progress_line(void **state)
{
	static const char *const formats[] = { "torch-zip", "torch-legacy", "safetensors" };
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT(formats); i++) {
		const struct gt_ckpt_write_options options = { .no_sync = true };
		double time = 0;
		char *text = NULL;
		size_t size = 0;
		struct gt_progress progress = { .stream = open_memstream(&text, &size),
			.terminal = true,
			.width = 60,
			.now = hurry,
			.clock = &time };
		struct gt_edit_target target = { f->path, f->out, .no_sync = true,
			.progress = &progress };

		assert_non_null(progress.stream);
		make_file(f, wrapped);
		assert_int_equal(gt_ckpt_write(f->path, formats[i],
		                     i == 2 ? gt_tree_get(gt_ckpt_root(f->ckpt), "model")
		                            : gt_ckpt_root(f->ckpt),
		                     &options, &f->err),
		    0);
		gt_ckpt_close(f->ckpt);
		assert_int_equal(gt_ckpt_open(&f->ckpt, f->path, &f->err), 0);
		assert_int_equal(compute(f, GT_EDIT_STRIP, NULL), 0);
		assert_int_equal(gt_edit_apply(f->ckpt, &f->edit, &target, NULL, &f->err), 0);
		gt_edit_release(&f->edit);
		gt_ckpt_close(f->ckpt);
		f->ckpt = NULL;
		fclose(progress.stream);
		if (strncmp(text, "\rcopying, MiB 0 ", 16) != 0)
			fail_msg("%s: '%s'", formats[i], text);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exchanges_strings),
		cmocka_unit_test(widens_long_strings),
		cmocka_unit_test(refuses_what_is_no_string),
		cmocka_unit_test(exchanges_at_random),
		cmocka_unit_test_setup_teardown(computes_and_applies, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refuses_what_is_wrong, set_up, tear_down),
		cmocka_unit_test_setup_teardown(numbers_may_stand_beside_names, set_up, tear_down),
		cmocka_unit_test_setup_teardown(says_which_dicts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refuses_another_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refuses_what_changed_meanwhile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(copies_ranges, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_slow_copy_has_a_progress_line, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
