/* sniff_foreign.c - files that people take for a checkpoint, told by their first bytes. */
#include <string.h>
#include <strings.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/format.h"

enum {
	TEXT_AT_START = -1, /* letters of any case; blanks before it are skipped */
	AT_END = -2,
	AT_START = 0,
	AT_4 = 4,
	AT_TAR = 257,           /* where a tar archive has its magic */
	BLANKS_MAX = 64 * 1024, /* before the text of a web page */
	LOOK_BYTES = 1 << 20,   /* bytes examined at each end of a file that may be all zeros */
};

static const char browser[] =
    "the download went to a page that asks for something; open the address in a browser";
static const char unpack_tar[] = "unpack it with tar and look for the checkpoint in it";
static const char zeros[] = "the file is all zeros: its data probably never reached the disk";
static const char zero_ends[] =
    "not a checkpoint: the first and the last MiB are all zeros, the rest was not checked";
static const char export_pth[] = "export it as .pth or .safetensors with the program that wrote it";

static const struct {
	int where; /* the byte, or one of the above */
	unsigned char length;
	const char *bytes;
	const char *what, *hint;
} accidents[] = {
#define BYTES(s) sizeof(s) - 1, s
	{ TEXT_AT_START, BYTES("version https://git-lfs"),
	    "a Git LFS pointer, not the file it stands for",
	    "run `git lfs pull` in the repository it came from" },
	{ TEXT_AT_START, BYTES("<!doctype html"), "a web page, not a checkpoint", browser },
	{ TEXT_AT_START, BYTES("<html"), "a web page, not a checkpoint", browser },
	{ TEXT_AT_START, BYTES("<head"), "a web page, not a checkpoint", browser },
	{ TEXT_AT_START, BYTES("<?xml"),
	    "an XML document, perhaps a server's error, not a checkpoint",
	    "read it, then download again" },
	{ TEXT_AT_START, BYTES("{"), "a JSON document, perhaps a server's error, not a checkpoint",
	    "read it, then download again" },
	/* Hugging Face's answers to a wrong name, and to users who may not download the model */
	{ TEXT_AT_START, BYTES("entry not found"), "a server's error text, not a checkpoint",
	    "look at the address again, then download again" },
	{ TEXT_AT_START, BYTES("repository not found"), "a server's error text, not a checkpoint",
	    "look at the address again, then download again" },
	{ TEXT_AT_START, BYTES("invalid username or password"),
	    "a server's error text, not a checkpoint", "log in, then download again" },
	{ TEXT_AT_START, BYTES("access to model "),
	    "a server's error text, not a checkpoint: access to the model is restricted",
	    "accept the model's licence on its page, log in, then download again" },
	{ AT_START, BYTES("\x1f\x8b"), "compressed by gzip", "unpack it with gunzip" },
	{ AT_START, BYTES("\xfd\x37zXZ"), "compressed by xz", "unpack it with unxz" },
	{ AT_START, BYTES("\x28\xb5\x2f\xfd"), "compressed by zstd", "unpack it with unzstd" },
	{ AT_START, BYTES("BZh"), "compressed by bzip2", "unpack it with bunzip2" },
	{ AT_START, BYTES("\x04\x22\x4d\x18"), "compressed by lz4", "unpack it with unlz4" },
	{ AT_START, BYTES("7z\xbc\xaf\x27\x1c"), "an archive of 7-Zip", "unpack it with 7z" },
	{ AT_START, BYTES("Rar!"), "a RAR archive", "unpack it with unrar" },
	{ AT_START, BYTES("\x89HDF\r\n"), "an HDF5 file (Keras?), not a torch checkpoint",
	    export_pth },
	{ AT_START, BYTES("lmgg"), "a GGML model (llama.cpp), not a torch checkpoint",
	    "take the model it was converted from" },
	{ AT_START, BYTES("tjgg"), "a GGML model (llama.cpp), not a torch checkpoint",
	    "take the model it was converted from" },
	{ AT_START, BYTES("\x81\xa6params"), "a msgpack file (Flax), not a torch checkpoint",
	    export_pth },
	/* versions 0.2.0 and 0.2.5; source: darknet, src/parser.c, save_weights_upto() */
	{ AT_START, BYTES("\0\0\0\0\2\0\0\0\0\0\0\0"),
	    "weights of Darknet (YOLO), not a torch checkpoint", export_pth },
	{ AT_START, BYTES("\0\0\0\0\2\0\0\0\5\0\0\0"),
	    "weights of Darknet (YOLO), not a torch checkpoint", export_pth },
	/* the number 20240326; source: llm.c, train_gpt2.py, write_model() */
	{ AT_START, BYTES("\306\327\064\001"), "a model of llm.c, not a torch checkpoint",
	    "take the model it was converted from" },
	{ AT_START, BYTES("MATLAB 5.0"), "a MATLAB file, not a torch checkpoint", export_pth },
	{ AT_START, BYTES("\x7f\x45LF"), "a program, not a checkpoint",
	    "look at the file's name again" },
	{ AT_START, BYTES("%PDF"), "a PDF document, not a checkpoint",
	    "look at the file's name again" },
	{ AT_START, BYTES("\x89PNG"), "a picture, not a checkpoint",
	    "look at the file's name again" },
	{ AT_START, BYTES("\xff\xd8\xff"), "a picture, not a checkpoint",
	    "look at the file's name again" },
	{ AT_START, BYTES("(dp"), "a pickle of protocol 0, but not one of torch.save",
	    "load it in Python and write it with torch.save" },
	{ AT_START, BYTES("ccopy_reg\n"), "a pickle of protocol 0, but not one of torch.save",
	    "load it in Python and write it with torch.save" },
	{ AT_4, BYTES("TFL3"), "a TensorFlow Lite model, not a torch checkpoint", export_pth },
	{ AT_TAR, BYTES("ustar"), "a tar archive", unpack_tar },
	/* the magic of LevelDB's tables, in which TensorFlow keeps its index */
	{ AT_END, BYTES("\x57\xfb\x80\x8b\x24\x75\x47\xdb"),
	    "the index of a TensorFlow checkpoint, not a torch checkpoint", export_pth },
};

static size_t leading_blanks(const struct gt_mapping *map)
{
	static const char bom[] = "\xef\xbb\xbf";
	size_t i = map->size >= 3 && !memcmp(map->data, bom, 3) ? 3 : 0;

	while (i < map->size && i < BLANKS_MAX && strchr(" \t\r\n", map->data[i]) && map->data[i])
		i++;
	return i;
}

static bool has_magic_at(const struct gt_mapping *map, int where, const char *bytes, size_t length)
{
	size_t at = (size_t)where;

	if (where == TEXT_AT_START)
		at = leading_blanks(map);
	else if (where == AT_END)
		at = map->size > length ? map->size - length : map->size;
	if (!gt_inside(at, length, map->size))
		return false;
	return where == TEXT_AT_START ? !strncasecmp((const char *)map->data + at, bytes, length)
	                              : !memcmp(map->data + at, bytes, length);
}

/* Until 0.1.11 torch.save wrote tar archives of these. */
static bool is_torch_tar(const struct gt_mapping *map)
{
	static const char *const members[] = { "sys_info", "pickle", "tensors", "storages" };

	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
		if (map->size > AT_TAR && map->data[0] &&
		    !strncmp((const char *)map->data, members[i], 16))
			return has_magic_at(map, AT_TAR, "ustar", 5);
	return false;
}

static bool all_zero(const unsigned char *bytes, size_t size)
{
	return !size || (!bytes[0] && !memcmp(bytes, bytes + 1, size - 1));
}

/* Whether the file is zeros at both ends. *whole: whether it is zeros all through, since there is
 * nothing between but holes. */
static bool is_zero(const struct gt_mapping *map, bool *whole)
{
	size_t start = gt_map_data(map, 0), left = gt_map_data_end(map, map->size);

	left = left > start ? left - start : 0;
	*whole = left <= 2 * LOOK_BYTES;
	if (*whole)
		return all_zero(map->data + start, left);
	return all_zero(map->data + start, LOOK_BYTES) &&
	       all_zero(map->data + start + left - LOOK_BYTES, LOOK_BYTES);
}

static int describe_foreign(struct gt_err *err, const char *what, const char *hint)
{
	gt_err_set(err, GT_EFORMAT, "%s", what);
	return gt_err_hint(err, "%s", hint);
}

int gt_ckpt_fail_foreign(const struct gt_mapping *map, const char *expected, struct gt_err *err)
{
	bool whole;

	if (!map->size)
		return describe_foreign(err, "the file is empty",
		    "its writer was stopped or the disk was full; use an earlier one");
	if (is_torch_tar(map))
		return describe_foreign(err,
		    "a tar archive of PyTorch 0.1, which is no longer read",
		    "load it with PyTorch 1.x and write it with torch.save");
	for (size_t i = 0; i < sizeof(accidents) / sizeof(*accidents); i++)
		if (has_magic_at(map, accidents[i].where, accidents[i].bytes, accidents[i].length))
			return describe_foreign(err, accidents[i].what, accidents[i].hint);
	if (is_zero(map, &whole))
		return describe_foreign(
		    err, whole ? zeros : zero_ends, "use an earlier checkpoint");
	if (expected) {
		gt_err_set(err, GT_EFORMAT, "not an .%s file", expected);
		return gt_err_hint(err, "numpy.%s() writes .%s files",
		    strcmp(expected, "npz") ? "save" : "savez", expected);
	}
	return describe_foreign(err,
	    "not a checkpoint: the first bytes are those of no known format",
	    "torch files (.pth, .pt, .th), safetensors, GGUF and npz can be read");
}
