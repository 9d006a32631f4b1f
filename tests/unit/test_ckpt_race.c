/* test_ckpt_race.c - files that others write to while they are read: each part is read once. */
#include <dlfcn.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/safetensors/json.h"
#include "lib/ckpt/tools/verify.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/write.h"
#include "tests/unit/ckpt_fixture.h"

/* ---- the system as the tests want it: these go before the libraries' ---- */

enum { DATA = 0xa5, LITTLE = 9, TEXT_BYTES = 12 };

static struct machine {
	bool scrambled; /* mappings show tensors as they are, and other bytes inverted */
	int fd;         /* of the file that changes; -1: none does */
	size_t wait;    /* calls of json_loadb() until then */
	size_t changes; /* that were made */
	bool in_memory; /* the text itself changes, instead of a file */
} machine = { .fd = -1 };

/* The bytes that tell the format, which are looked at once, in the mapping. */
static size_t sniffed(const unsigned char *bytes, size_t size)
{
	if (size > 30 && !memcmp(bytes, "PK\3\4", 4))
		return 30u + bytes[26];
	return size < LITTLE ? size : LITTLE;
}

static void scramble(unsigned char *bytes, size_t size)
{
	static const char key[] = "\"weight_map\"";
	unsigned char *kept = memmem(bytes, size, key, sizeof(key) - 1);

	for (size_t i = sniffed(bytes, size); i < size; i++)
		if (bytes[i] != DATA &&
		    !(kept && bytes + i >= kept && bytes + i < kept + sizeof(key) - 1))
			bytes[i] = (unsigned char)~bytes[i];
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	bool ours = machine.scrambled && fd >= 0 && flags == MAP_PRIVATE;
	void *p = (void *)syscall(
	    SYS_mmap, at, size, protection | (ours ? PROT_WRITE : 0), flags, fd, offset);

	if (ours && p != MAP_FAILED)
		scramble(p, size); /* the pages become our own */
	return p;
}

/* Another process writes to the file just when a text of it is about to be parsed that begins with
 * '"': it becomes a number. */
static void change(const char *buffer, size_t size)
{
	char *file, *found;
	struct stat st;

	if (size < TEXT_BYTES || *buffer != '"' || machine.wait--)
		return;
	assert_int_equal(fstat(machine.fd, &st), 0);
	file = malloc((size_t)st.st_size);
	assert_non_null(file);
	assert_int_equal(pread(machine.fd, file, (size_t)st.st_size, 0), st.st_size);
	found = memmem(file, (size_t)st.st_size, buffer, TEXT_BYTES);
	if (found) {
		assert_int_equal(pwrite(machine.fd, "1", 1, found - file), 1);
		machine.changes++;
	}
	free(file);
}

json_t *json_loadb(const char *buffer, size_t size, size_t flags, json_error_t *error)
{
	static json_t *(*real)(const char *, size_t, size_t, json_error_t *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "json_loadb");
	if (machine.in_memory)
		*(char *)buffer = '1';
	if (machine.fd >= 0)
		change(buffer, size);
	return real(buffer, size, flags, error);
}

/* ---- files, and their use ---- */

static const struct {
	/* `file` is written; `opened` is the file that a command is given then. */
	const char *format, *file, *opened;
	uint64_t shard_bytes;
	bool in_place; /* can be edited so */
} files[] = {
	{ "safetensors", "a.safetensors", "a.safetensors", 0, true },
	{ "safetensors", "b.safetensors", "b.safetensors.index.json", 64, false },
	{ "torch-zip", "c.pth", "c.pth", 0, true },
	{ "torch-legacy", "d.pth", "d.pth", 0, true },
	{ "npz", "e.npz", "e.npz", 0, true },
};

enum { FILES = COUNT(files), TENSORS = 5 };

static void save(struct fixture *f, size_t i)
{
	static const int64_t shape[2] = { 2, 3 };
	static unsigned char data[TENSORS][24];
	const struct gt_ckpt_write_options options = { .shard_bytes = files[i].shard_bytes,
		.no_sync = true };
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);

	memset(data, DATA, sizeof(data));
	for (int k = 0; k < TENSORS; k++) {
		char name[32];

		snprintf(name, sizeof(name), "module.layer%d.weight", k);
		gt_tree_set(root, name,
		    gt_tree_tensor(&f->arena, GT_F32, 2, shape, data[k], &f->err), &f->arena,
		    &f->err);
	}
	if (gt_ckpt_write(ckpt_file(f, files[i].file), files[i].format, root, &options, &f->err))
		fail_msg("%s", f->err.text);
}

/* The names in a file, all of whose tensors can be read. */
static void names_of(struct fixture *f, const char *path, char *out, size_t size)
{
	struct gt_ckpt *ckpt;
	size_t at = 0;

	if (gt_ckpt_open(&ckpt, path, &f->err))
		fail_msg("%s", f->err.text);
	*out = '\0';
	for (size_t i = 0; i < gt_ckpt_root(ckpt)->seq.count; i++) {
		const struct gt_tree_item *item = &gt_ckpt_root(ckpt)->seq.items[i];
		unsigned char back[24];

		assert_int_equal(
		    gt_ckpt_tensor_read(&item->value->tensor, GT_F32, back, &f->err), 0);
		assert_int_equal(back[7], DATA);
		at += (size_t)snprintf(out + at, size - at, "%s ", item->key->string.bytes);
	}
	gt_ckpt_close(ckpt);
}

static void edit(struct fixture *f, const char *input, const char *output, enum gt_edit_kind kind)
{
	const struct gt_edit_request request = { .kind = kind };
	const struct gt_edit_target target = { input, output, .no_sync = true };
	struct gt_edit change;
	struct gt_ckpt *ckpt;

	if (gt_ckpt_open(&ckpt, input, &f->err) ||
	    gt_edit_compute(&change, ckpt, &request, &f->err) ||
	    gt_edit_apply(ckpt, &change, &target, NULL, &f->err))
		fail_msg("%s", f->err.text);
	gt_edit_release(&change);
	gt_ckpt_close(ckpt);
}

static void verify(struct fixture *f, const char *path)
{
	struct gt_verify v;

	assert_int_equal(gt_verify(&v, path, 1, NULL, &f->err), 0);
	if (v.kinds[GT_FINDING_DAMAGE])
		fail_msg("%s", v.findings[0].text);
	gt_verify_release(&v);
}

/* All that is done with a file: to the names, those of two copies that are edited. */
static void use(struct fixture *f, size_t i, char *out, size_t size)
{
	char input[128], copy[256];

	strcpy(input, ckpt_file(f, files[i].opened));
	snprintf(copy, sizeof(copy), "%s/x-%s", f->folder, files[i].opened);
	names_of(f, input, out, size);
	verify(f, input);
	edit(f, input, copy, GT_EDIT_STRIP);
	names_of(f, copy, out + strlen(out), size - strlen(out));
	if (!files[i].in_place)
		return;
	edit(f, copy, NULL, GT_EDIT_ADD);
	edit(f, copy, NULL, GT_EDIT_STRIP);
	verify(f, copy);
	names_of(f, copy, out + strlen(out), size - strlen(out));
}

/* ---- tests ---- */

/* The headers of a file are copied out of it, not read in its mapping. */
static void only_copies_are_read(void **state)
{
	char expected[2048], found[2048];
	struct fixture *f = *state;

	machine = (struct machine){ .fd = -1 };
	for (size_t i = 0; i < FILES; i++) {
		save(f, i);
		use(f, i, expected, sizeof(expected));
		machine.scrambled = true;
		use(f, i, found, sizeof(found));
		machine.scrambled = false;
		assert_string_equal(found, expected);
	}
}

/* A string that was one when it was looked at, and is none when it is parsed. */
static void a_text_that_changes_does_no_harm(void **state)
{
	char expected[2048], found[2048];
	struct fixture *f = *state;

	machine = (struct machine){ .fd = -1 };
	for (size_t i = 0; i < FILES; i++) {
		size_t before;

		save(f, i);
		names_of(f, ckpt_file(f, files[i].opened), expected, sizeof(expected));
		before = machine.changes;
		for (size_t n = 0; n < 24; n++) {
			save(f, i);
			machine.fd = open(ckpt_file(f, files[i].opened), O_RDWR);
			machine.wait = n;
			names_of(f, f->path, found, sizeof(found));
			close(machine.fd);
			machine.fd = -1;
			assert_string_equal(found, expected);
		}
		assert_true(
		    !strstr(files[i].format, "safetensors") || machine.changes > before + TENSORS);
	}
}

/* Even where the text itself changes, a key that is no string is an error. */
static void a_key_is_a_string(void **state)
{
	char text[] = "{\"a\": 1}";
	struct gt_json json = { .text = text, .size = sizeof(text) - 1 };
	struct gt_err err = GT_ERR_INIT;
	size_t at, length;
	char *key;

	(void)state;
	assert_int_equal(gt_json_enter(&json, &err), 0);
	machine = (struct machine){ .fd = -1, .in_memory = true };
	assert_int_equal(gt_json_key(&json, true, &key, &at, &length, &err), GT_EFORMAT);
	machine.in_memory = false;
	assert_null(key);
	assert_string_equal(err.text, "JSON: the key at byte 1 is no string");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(only_copies_are_read),
		IN_FOLDER(a_text_that_changes_does_no_harm),
		cmocka_unit_test(a_key_is_a_string),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
