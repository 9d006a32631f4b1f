/* sets.c - the table of well-known data sets. */
#include "lib/data/get/sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/mem.h"
#include "lib/base/user_cache.h"

/*
 * Sources of sizes and SHA-256:
 *   mnist, fashion-mnist, cifar10   TensorFlow Datasets, tensorflow_datasets/url_checksums/
 *                                   mnist.txt, fashion_mnist.txt, cifar10.txt; the first address
 *                                   of MNIST is PyTorch's (torchvision/datasets/mnist.py)
 *   parts of cifar10                torchvision-ruby, lib/torchvision/datasets/cifar10.rb; sizes:
 *                                   10,000 records of 3073 bytes, as the publisher describes them
 *   shakespeare                     computed from the file
 *   gpt2                            the repository of Hugging Face's at a fixed revision; the
 *                                   weights' SHA-256 is the one that its large-file storage shows
 *   resnet18, ..., vit-base         the first 8 digits are in the names that torchvision gives the
 *                                   files (torchvision/models); the others, and the sizes, are
 *                                   those that several projects have measured
 * That of batches.meta.txt is not known; it comes out of an archive that was checked.
 */
/* clang-format off */
#define OSSCI   "https://ossci-datasets.s3.amazonaws.com/mnist/"
#define CVDF    "https://storage.googleapis.com/cvdf-datasets/mnist/"
#define ZALANDO "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/" \
                "data/fashion/"
#define FASHION "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
#define TORONTO "https://www.cs.toronto.edu/~kriz/"
#define KARPATHY "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/"
#define PYTORCH "https://download.pytorch.org/models/"
#define GPT2    "https://huggingface.co/openai-community/gpt2/resolve/" \
                "607a30d783dfa663caf39e06633721c8d4cfcd7e/"

static const struct gt_set_file mnist[] = {
	{ "train-images-idx3-ubyte.gz", 9912422,
	    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
	    { OSSCI "train-images-idx3-ubyte.gz", CVDF "train-images-idx3-ubyte.gz" } },
	{ "train-labels-idx1-ubyte.gz", 28881,
	    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
	    { OSSCI "train-labels-idx1-ubyte.gz", CVDF "train-labels-idx1-ubyte.gz" } },
	{ "t10k-images-idx3-ubyte.gz", 1648877,
	    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
	    { OSSCI "t10k-images-idx3-ubyte.gz", CVDF "t10k-images-idx3-ubyte.gz" } },
	{ "t10k-labels-idx1-ubyte.gz", 4542,
	    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
	    { OSSCI "t10k-labels-idx1-ubyte.gz", CVDF "t10k-labels-idx1-ubyte.gz" } },
	{ 0 }
};

static const struct gt_set_file fashion_mnist[] = {
	{ "train-images-idx3-ubyte.gz", 26421880,
	    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
	    { ZALANDO "train-images-idx3-ubyte.gz", FASHION "train-images-idx3-ubyte.gz" } },
	{ "train-labels-idx1-ubyte.gz", 29515,
	    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
	    { ZALANDO "train-labels-idx1-ubyte.gz", FASHION "train-labels-idx1-ubyte.gz" } },
	{ "t10k-images-idx3-ubyte.gz", 4422102,
	    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
	    { ZALANDO "t10k-images-idx3-ubyte.gz", FASHION "t10k-images-idx3-ubyte.gz" } },
	{ "t10k-labels-idx1-ubyte.gz", 5148,
	    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
	    { ZALANDO "t10k-labels-idx1-ubyte.gz", FASHION "t10k-labels-idx1-ubyte.gz" } },
	{ 0 }
};

static const struct gt_set_file cifar10[] = {
	{ "cifar-10-binary.tar.gz", 170052171,
	    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
	    { TORONTO "cifar-10-binary.tar.gz" } },
	{ 0 }
};

enum { CIFAR_BATCH = 10000 * 3073 };

static const struct gt_set_file cifar10_parts[] = {
	{ "data_batch_1.bin", CIFAR_BATCH,
	    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5", { NULL } },
	{ "data_batch_2.bin", CIFAR_BATCH,
	    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed", { NULL } },
	{ "data_batch_3.bin", CIFAR_BATCH,
	    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67", { NULL } },
	{ "data_batch_4.bin", CIFAR_BATCH,
	    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48", { NULL } },
	{ "data_batch_5.bin", CIFAR_BATCH,
	    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add", { NULL } },
	{ "test_batch.bin", CIFAR_BATCH,
	    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b", { NULL } },
	{ "batches.meta.txt", 0, NULL, { NULL } },
	{ 0 }
};

static const struct gt_set_file shakespeare[] = {
	{ "input.txt", 1115394,
	    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
	    { KARPATHY "input.txt" } },
	{ 0 }
};

#define GPT2_TOKENIZER \
	{ "tokenizer.json", 1355256, \
	    "8414cab924d8b9b33013f0d221c5862f365ee9be39c5c2bfae8a5a9e970478a6", \
	    { GPT2 "tokenizer.json" } }

static const struct gt_set_file gpt2_tokenizer[] = { GPT2_TOKENIZER, { 0 } };

static const struct gt_set_file gpt2[] = {
	GPT2_TOKENIZER,
	{ "config.json", 665,
	    "0daed7749b4f02b8f76240d5444551d7b08712dab4d0adb8239c56ba823bb7b4",
	    { GPT2 "config.json" } },
	{ "model.safetensors", 548105171,
	    "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
	    { GPT2 "model.safetensors" } },
	{ 0 }
};

#define WEIGHTS(name, size, sum) { { name, size, sum, { PYTORCH name } }, { 0 } }

static const struct gt_set_file resnet18[] = WEIGHTS("resnet18-f37072fd.pth", 46830571,
    "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec");
static const struct gt_set_file resnet34[] = WEIGHTS("resnet34-b627a593.pth", 87319819,
    "b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f");
static const struct gt_set_file resnet50[] = WEIGHTS("resnet50-0676ba61.pth", 102530333,
    "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a");
static const struct gt_set_file vit_base[] = WEIGHTS("vit_b_16-c867db91.pth", 346328529,
    "c867db91d3e12c6cbadabb610d73c24a546bf82d8c03a9fea34f43a712ddb0e9");

#define PHOTOS "images:FOLDER,size=224,norm=imagenet"
#define TORCHVISION "BSD 3-Clause; torchvision, https://github.com/pytorch/vision"

static const struct gt_set sets[] = {
	{ .name = "mnist", .summary = "70,000 digits of 28 x 28 pixels",
	    .license = "LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist/",
	    .model = "lenet", .data = "mnist:@", .kind = "mnist", .path = "", .files = mnist },
	{ .name = "fashion-mnist", .summary = "70,000 pieces of clothing of 28 x 28 pixels",
	    .license = "MIT; Xiao, Rasul and Vollgraf, arXiv 1708.07747",
	    .model = "lenet", .data = "mnist:@", .kind = "mnist", .path = "",
	    .files = fashion_mnist },
	{ .name = "cifar10", .summary = "60,000 photos of 32 x 32 pixels, of 10 classes",
	    .license = "Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html",
	    .model = "resnet20", .data = "cifar10:@/cifar-10-batches-bin", .kind = "cifar10",
	    .path = "cifar-10-batches-bin", .files = cifar10,
	    .parts_folder = "cifar-10-batches-bin", .parts = cifar10_parts },
	{ .name = "shakespeare", .summary = "40,000 lines of Shakespeare, in one text",
	    .license = "public domain; Karpathy, https://github.com/karpathy/char-rnn",
	    .model = "gpt", .data = "text:@/input.txt", .kind = "text", .path = "input.txt",
	    .files = shakespeare },
	{ .name = "gpt2-tokenizer", .summary = "the tokenizer of GPT-2, 50,257 tokens",
	    .license = "MIT; https://huggingface.co/openai-community/gpt2",
	    .model = "gpt2", .data = "text:FILE,level=bpe,tokenizer=@", .files = gpt2_tokenizer },
	{ .name = "gpt2", .summary = "GPT-2 of 124 million parameters: weights and tokenizer",
	    .license = "MIT; https://huggingface.co/openai-community/gpt2",
	    .model = "@", .data = "text:FILE,level=bpe,tokenizer=@", .weights = "@",
	    .files = gpt2 },
	{ .name = "resnet18", .summary = "torchvision's ResNet-18 for ImageNet (IMAGENET1K_V1)",
	    .license = TORCHVISION, .model = "resnet18", .data = PHOTOS,
	    .weights = "@/resnet18-f37072fd.pth", .files = resnet18 },
	{ .name = "resnet34", .summary = "torchvision's ResNet-34 for ImageNet (IMAGENET1K_V1)",
	    .license = TORCHVISION, .model = "resnet34", .data = PHOTOS,
	    .weights = "@/resnet34-b627a593.pth", .files = resnet34 },
	{ .name = "resnet50", .summary = "torchvision's ResNet-50 for ImageNet (IMAGENET1K_V1)",
	    .license = TORCHVISION, .model = "resnet50", .data = PHOTOS,
	    .weights = "@/resnet50-0676ba61.pth", .files = resnet50 },
	{ .name = "vit-base", .summary = "torchvision's ViT-B/16 for ImageNet (IMAGENET1K_V1)",
	    .license = TORCHVISION, .model = "vit-base", .data = PHOTOS,
	    .weights = "@/vit_b_16-c867db91.pth", .files = vit_base },
	{ 0 }
};
/* clang-format on */

const struct gt_set *gt_sets(void)
{
	return sets;
}

const struct gt_set *gt_set_find(const char *name)
{
	for (const struct gt_set *set = sets; set->name; set++)
		if (!strcmp(set->name, name))
			return set;
	return NULL;
}

char *gt_sets_folder(void)
{
	return gt_user_cache_path("data");
}

char *gt_set_path(
    const struct gt_set *set, const char *folder, const char *path, struct gt_err *err)
{
	return gt_asprintf(err, "%s/%s%s%s", folder, set->name, *path ? "/" : "", path);
}

/* A regular file of this size, or of any where it is not known. */
static bool is_file(const char *path, uint64_t size_bytes)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) &&
	       (!size_bytes || (uint64_t)st.st_size == size_bytes);
}

static bool are_there(const struct gt_set *set, const char *folder, const char *below,
    const struct gt_set_file *files)
{
	for (const struct gt_set_file *f = files; f->name; f++) {
		char *path = gt_asprintf(GT_ERR_IGNORED, "%s/%s/%s%s%s", folder, set->name, below,
		    *below ? "/" : "", f->name);
		bool there = path && is_file(path, f->size_bytes);

		free(path);
		if (!there)
			return false;
	}
	return true;
}

bool gt_set_is_there(const struct gt_set *set, const char *folder)
{
	return set->parts ? are_there(set, folder, set->parts_folder, set->parts)
	                  : are_there(set, folder, "", set->files);
}

uint64_t gt_set_size(const struct gt_set *set)
{
	uint64_t total = 0;

	for (const struct gt_set_file *f = set->files; f->name; f++)
		total += f->size_bytes;
	return total;
}

/* "gpt2" names the tokenizer gpt2-tokenizer, too. */
static const struct gt_set *find_missing(const char *name, bool weights)
{
	const struct gt_set *set = gt_set_find(name);
	char tokenizer[64];

	if (weights)
		return set && set->weights ? set : NULL;
	snprintf(tokenizer, sizeof(tokenizer), "%s-tokenizer", name);
	return set && !set->kind && !set->weights ? set : gt_set_find(tokenizer);
}

int gt_set_hint_missing(const char *name, bool weights, struct gt_err *err)
{
	const struct gt_set *set = find_missing(name, weights);
	char *folder = set ? gt_sets_folder() : NULL;
	/* `weights` is "@" or "@/FILE". */
	const char *file = weights && set && set->weights[1] ? set->weights + 2 : "";
	char *path = folder ? gt_set_path(set, folder, file, GT_ERR_IGNORED) : NULL;

	if (path && gt_set_is_there(set, folder))
		gt_err_hint(err, "the path of the well-known '%s' is '%s'", set->name, path);
	else if (path)
		gt_err_hint(err, "`gtrain data get %s` fetches it into '%s'; give that path",
		    set->name, path);
	free(path);
	free(folder);
	return err->code;
}
