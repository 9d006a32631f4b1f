/* test_pretrained.c - the files of a folder of Hugging Face's: facts about model and data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/train/checkpoint/pretrained.h"
#include "tests/common/planted.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

#define GPT2                                                                                       \
	"{'model_type':'gpt2','vocab_size':50,'n_positions':8,'n_embd':16,'n_layer':1,'n_head':2,'"
#define VIT                                                                                        \
	"{'model_type':'vit','image_size':8,'patch_size':4,'hidden_size':16,"                      \
	"'num_hidden_layers':1,'num_attention_heads':2,'intermediate_size':32,'"
#define RESNET "{'model_type':'resnet','"
#define PIXELS "{'size':{'height':32,'width':32},'image_mean':[0.5,0.25,0.125],'image_std':[1,2,4]"

enum { FILES = 6 };

/* Files in which ' stands for ", and the facts in them. */
struct folder {
	const char *name;
	struct planted_file files[FILES];
	const char *data; /* the description of the data, ' for "; NULL: an error */
	int code;
	const char *says;
};

/* A copy of text with " for ', to free(). */
static char *quoted(const char *text)
{
	char *copy = strdup(text);

	assert_non_null(copy);
	for (char *c = copy; (c = strchr(c, '\'')) != NULL;)
		*c = '"';
	return copy;
}

static void make(char root[PLANTED_ROOT], const struct folder *f)
{
	struct planted_file files[FILES + 1] = { 0 };

	for (int i = 0; i < FILES && f->files[i].path; i++)
		files[i] = (struct planted_file){ f->files[i].path, quoted(f->files[i].text) };
	planted_make(root, files);
	for (int i = 0; files[i].path; i++)
		free((char *)files[i].text);
}

static void expect(const struct folder *f)
{
	struct gt_err err = GT_ERR_INIT;
	char root[PLANTED_ROOT];
	struct gt_pretrained p;
	int rc;

	make(root, f);
	rc = gt_pretrained_open(&p, root, &err);
	if (rc != f->code || (rc && !strstr(err.text, f->says)))
		fail_msg("%s: code %d, \"%s\"", f->name, rc, rc ? err.text : "");
	if (!rc) {
		char *text = quoted(f->data);
		json_t *wanted = json_loads(text, 0, NULL);
		json_t *data = json_object_get(json_object_get(p.about, "about"), "data");

		assert_non_null(wanted);
		if (!json_equal(data, wanted))
			fail_msg("%s: %s", f->name, json_dumps(data, JSON_COMPACT));
		json_decref(wanted);
		free(text);
	}
	gt_pretrained_release(&p);
	planted_remove(root);
}

/* ---- text ---- */

static void texts_have_their_first_and_last_tokens(void **state)
{
	static const struct folder cases[] = {
		{ "nothing is said", { { "/config.json", GPT2 "x':0}" } }, .code = GT_ENOTSUP,
		    .says = "'x'" },
		{ "an end", { { "/config.json", GPT2 "eos_token_id':7}" } },
		    .data = "{'kind':'tokens','classes':0,'eos':[7]}" },
		{ "no end", { { "/config.json", GPT2 "eos_token_id':null}" } },
		    .data = "{'kind':'tokens','classes':0}" },
		{ "ends", { { "/config.json", GPT2 "eos_token_id':[7,3]}" } },
		    .data = "{'kind':'tokens','classes':0,'eos':[7,3]}" },
		{ "generation_config.json counts first",
		    { { "/config.json", GPT2 "eos_token_id':7}" },
		        { "/generation_config.json", "{'eos_token_id':[1]}" } },
		    .data = "{'kind':'tokens','classes':0,'eos':[1]}" },
		{ "if it says one",
		    { { "/config.json", GPT2 "eos_token_id':7}" },
		        { "/generation_config.json", "{}" } },
		    .data = "{'kind':'tokens','classes':0,'eos':[7]}" },
		{ "a negative end", { { "/config.json", GPT2 "eos_token_id':-1}" } },
		    .code = GT_EFORMAT, .says = "/config.json': 'eos_token_id' must be an id" },
		{ "an end that is no number",
		    { { "/config.json", GPT2 "eos_token_id':7}" },
		        { "/generation_config.json", "{'eos_token_id':[1,'2']}" } },
		    .code = GT_EFORMAT,
		    .says = "/generation_config.json': 'eos_token_id' must be an id" },
		{ "too many ends",
		    { { "/config.json",
		        GPT2 "eos_token_id':[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,"
		             "21,22,23,24,25,26,27,28,29,30,31,32,33]}" } },
		    .code = GT_EFORMAT,
		    .says = "'eos_token_id' must be an id, or a list of at most" },
		{ "a first token that is put before texts",
		    { { "/config.json", GPT2 "bos_token_id':5}" },
		        { "/tokenizer_config.json", "{'add_bos_token':true}" } },
		    .data = "{'kind':'tokens','classes':0,'bos':5}" },
		{ "one that is not",
		    { { "/config.json", GPT2 "bos_token_id':5}" },
		        { "/tokenizer_config.json", "{'add_bos_token':false}" } },
		    .data = "{'kind':'tokens','classes':0,'bos':null}" },
		{ "one of which nothing is said",
		    { { "/config.json", GPT2 "bos_token_id':5}" },
		        { "/tokenizer_config.json", "{'add_bos_token':null}" } },
		    .data = "{'kind':'tokens','classes':0}" },
		{ "one that is neither",
		    { { "/config.json", GPT2 "bos_token_id':5}" },
		        { "/tokenizer_config.json", "{'add_bos_token':'yes'}" } },
		    .code = GT_EFORMAT,
		    .says = "/tokenizer_config.json': 'add_bos_token' must be true or false" },
		{ "one that nobody names",
		    { { "/config.json", GPT2 "bos_token_id':null}" },
		        { "/tokenizer_config.json", "{'add_bos_token':true}" } },
		    .code = GT_EFORMAT, .says = "/config.json': 'bos_token_id' must be an id" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		expect(&cases[i]);
}

/* ---- images ---- */

#define CLASSES ",'classes':2"
#define SQUASH  ",'resize':'squash','reduce':false"
#define NUMBER  ",'classes':1,'target':{'mean':0.0,'std':1.0}"

static void images_have_their_size_and_numbers(void **state)
{
	static const struct folder cases[] = {
		{ "the model's size", { { "/config.json", VIT "num_channels':3}" } },
		    .data = "{'kind':'image','size':[8,8,3]" CLASSES "}" },
		{ "the processor's",
		    { { "/config.json", RESNET "num_channels':3}" },
		        { "/preprocessor_config.json", PIXELS "}" } },
		    .data = "{'kind':'image','size':[32,32,3]" CLASSES SQUASH
		            ",'mean':[0.5,0.25,0.125],'std':[1.0,2.0,4.0]}" },
		{ "that of the crop",
		    { { "/config.json", RESNET "num_channels':3}" },
		        { "/preprocessor_config.json",
		            PIXELS ",'do_center_crop':true,'crop_size':24}" } },
		    .data =
		        "{'kind':'image','size':[24,24,3],'resize':'32x32','reduce':false" CLASSES
		        ",'mean':[0.5,0.25,0.125],'std':[1.0,2.0,4.0]}" },
		{ "unless it does not crop",
		    { { "/config.json", RESNET "num_channels':3}" },
		        { "/preprocessor_config.json",
		            PIXELS ",'do_center_crop':false,'crop_size':24}" } },
		    .data = "{'kind':'image','size':[32,32,3]" CLASSES SQUASH
		            ",'mean':[0.5,0.25,0.125],'std':[1.0,2.0,4.0]}" },
		{ "pixels as they are",
		    { { "/config.json", VIT "num_channels':1}" },
		        { "/preprocessor_config.json", "{'do_normalize':false,'size':null}" } },
		    .data = "{'kind':'image','size':[8,8,1]" CLASSES SQUASH
		            ",'mean':[0.0],'std':[1.0]}" },
		{ "numbers for other channels",
		    { { "/config.json", RESNET "num_channels':1}" },
		        { "/preprocessor_config.json", PIXELS "}" } },
		    .code = GT_EFORMAT,
		    .says = "/preprocessor_config.json': 'image_mean' must be a list" },
		{ "words for numbers",
		    { { "/config.json", VIT "num_channels':1}" },
		        { "/preprocessor_config.json", "{'image_mean':[1],'image_std':['1']}" } },
		    .code = GT_EFORMAT,
		    .says = "/preprocessor_config.json': 'image_std' must be a list" },
		{ "another size than the model's",
		    { { "/config.json", VIT "num_channels':3}" },
		        { "/preprocessor_config.json",
		            "{'do_normalize':false,'size':{'height':8,'width':16}}" } },
		    .code = GT_EFORMAT,
		    .says = "/preprocessor_config.json': 'size' is 8 x 16 pixels, but 'image_size' "
		            "of config.json is 8" },
		{ "that of the crop, too",
		    { { "/config.json", VIT "num_channels':3}" },
		        { "/preprocessor_config.json",
		            "{'size':8,'do_center_crop':true,'crop_size':6}" } },
		    .code = GT_EFORMAT, .says = "'crop_size' is 6 x 6 pixels, but 'image_size'" },
		{ "a size of -3",
		    { { "/config.json", VIT "num_channels':1}" },
		        { "/preprocessor_config.json", "{'do_normalize':false,'size':-3}" } },
		    .code = GT_EFORMAT,
		    .says =
		        "/preprocessor_config.json': 'size' must be a number of pixels from 1 to" },
		{ "a size of a word",
		    { { "/config.json", VIT "num_channels':1}" },
		        { "/preprocessor_config.json",
		            "{'do_center_crop':true,'crop_size':{'height':'8','width':8}}" } },
		    .code = GT_EFORMAT,
		    .says = "/preprocessor_config.json': 'crop_size' must be a number of pixels" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		expect(&cases[i]);
}

static void pixels_have_their_scale(void **state)
{
	static const struct folder cases[] = {
		{ "pixels from 0 to 255",
		    { { "/config.json", RESNET "num_channels':1}" },
		        { "/preprocessor_config.json",
		            "{'size':{'height':8,'width':8},'image_mean':[51],'image_std':[102],"
		            "'do_rescale':false}" } },
		    .data = "{'kind':'image','size':[8,8,1]" CLASSES SQUASH
		            ",'mean':[0.2],'std':[0.4]}" },
		{ "pixels of another scale",
		    { { "/config.json", RESNET "num_channels':1}" },
		        { "/preprocessor_config.json",
		            "{'size':8,'do_normalize':false,'rescale_factor':0.0078431372549019607}" } },
		    .data = "{'kind':'image','size':[8,8,1]" CLASSES SQUASH
		            ",'mean':[0.0],'std':[0.5]}" },
		{ "a scale of nothing",
		    { { "/config.json", RESNET "num_channels':3}" },
		        { "/preprocessor_config.json", PIXELS ",'rescale_factor':0}" } },
		    .code = GT_EFORMAT, .says = "'rescale_factor' must be a number above 0" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		expect(&cases[i]);
}

/* The part of a description that a processor gives, of a resnet. */
static void pictures_are_resized_as_the_processor_says(void **state)
{
	static const struct {
		const char *processor, *wanted;
		int code; /* of an error, which `wanted` is then */
	} cases[] = {
		{ "'size':{'height':32,'width':32}", "'size':[32,32,3],'resize':'squash'", 0 },
		{ "'size':{'height':32,'width':48}", "'size':[32,48,3],'resize':'squash'", 0 },
		{ "'image_processor_type':'ViTImageProcessor','size':32",
		    "'size':[32,32,3],'resize':'squash'", 0 },
		{ "'feature_extractor_type':'ViTFeatureExtractor','size':32,'resample':3",
		    "'size':[32,32,3],'resize':'squash','interpolation':'bicubic'", 0 },
		{ "'image_processor_type':'DeiTImageProcessorFast','size':256,'crop_size':224",
		    "'size':[224,224,3],'resize':'256x256','interpolation':'bicubic'", 0 },
		{ "'image_processor_type':'BitImageProcessor','size':{'shortest_edge':256}",
		    "'size':[224,224,3],'resize':'256','interpolation':'bicubic'", 0 },
		{ "'image_processor_type':'BitImageProcessor','size':224,'crop_size':224,"
		  "'resample':2",
		    "'size':[224,224,3]", 0 },
		{ "'image_processor_type':'CLIPImageProcessor','size':224,'resample':1",
		    "'size':[224,224,3],'interpolation':'lanczos'", 0 },
		{ "'image_processor_type':'ConvNextImageProcessor','size':224,'crop_pct':0.875,"
		  "'resample':3",
		    "'size':[224,224,3],'crop':0.875,'interpolation':'bicubic'", 0 },
		{ "'feature_extractor_type':'ConvNextFeatureExtractor','size':224",
		    "'size':[224,224,3],'crop':0.875", 0 },
		{ "'crop_pct':0.95,'size':{'shortest_edge':288}", "'size':[288,288,3],'crop':0.95",
		    0 },
		{ "'image_processor_type':'ConvNextImageProcessor','size':384",
		    "'size':[384,384,3],'resize':'squash'", 0 },
		{ "'do_resize':false,'do_center_crop':true,'crop_size':32,'resample':0",
		    "'size':[32,32,3],'resize':'no'", 0 },
		{ "'size':{'shortest_edge':32},'do_center_crop':true,"
		  "'crop_size':{'height':24,'width':28}",
		    "'size':[24,28,3],'resize':'32'", 0 },
		{ "'size':32,'do_convert_rgb':true,'do_pad':false",
		    "'size':[32,32,3],'resize':'squash'", 0 },
		/* what gtrain cannot do, by its name */
		{ "'size':{'shortest_edge':32}", "'size' is the shorter side", GT_ENOTSUP },
		{ "'size':{'longest_edge':32}", "'size' is neither 'height' and", GT_ENOTSUP },
		{ "'size':{'shortest_edge':32,'longest_edge':64}", "'size' is neither",
		    GT_ENOTSUP },
		{ "'size':{'shortest_edge':32},'do_center_crop':true,'crop_size':48",
		    "'crop_size' is larger than 'size'", GT_ENOTSUP },
		{ "'size':32,'do_resize':false", "'do_resize' is false without", GT_ENOTSUP },
		{ "'size':32,'resample':0", "'resample' is 0 (nearest), which is not", GT_ENOTSUP },
		{ "'size':32,'resample':5", "'resample' is 5 (hamming)", GT_ENOTSUP },
		{ "'size':32,'resample':6", "'resample' must be a number from 0 to 5", GT_EFORMAT },
		{ "'size':32,'do_pad':true", "'do_pad' is true, which is not", GT_ENOTSUP },
		{ "'size':32,'do_flip_channel_order':true", "'do_flip_channel_order'", GT_ENOTSUP },
		{ "'size':32,'rescale_offset':true", "'rescale_offset' is true", GT_ENOTSUP },
		{ "'size':32,'image_processor_type':'XImageProcessor'",
		    "'image_processor_type' is XImageProcessor, which is not", GT_ENOTSUP },
		{ "'size':224,'crop_pct':1.5", "'crop_pct' must be above 0", GT_EFORMAT },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char processor[400], data[400];
		struct folder f = { .name = cases[i].processor,
			.files = { { "/config.json", RESNET "num_channels':3}" },
			    { "/preprocessor_config.json", processor } },
			.data = data,
			.code = cases[i].code,
			.says = cases[i].wanted };

		snprintf(
		    processor, sizeof(processor), "{%s,'do_normalize':false}", cases[i].processor);
		snprintf(data, sizeof(data),
		    "{'kind':'image',%s,'reduce':false,'classes':2,'mean':[0.0,0.0,0.0],"
		    "'std':[1.0,1.0,1.0]}",
		    cases[i].wanted);
		expect(&f);
	}
}

static void images_have_their_labels(void **state)
{
	static const struct folder cases[] = {
		{ "classes", { { "/config.json", VIT "id2label':{'1':'dog','0':'cat'}}" } },
		    .data =
		        "{'kind':'image','size':[8,8,3],'classes':2,'class-names':['cat','dog']}" },
		{ "two, as nothing is said", { { "/config.json", VIT "id2label':null}" } },
		    .data = "{'kind':'image','size':[8,8,3],'classes':2}" },
		{ "their number", { { "/config.json", VIT "num_labels':3}" } },
		    .data = "{'kind':'image','size':[8,8,3],'classes':3}" },
		{ "their names count before",
		    { { "/config.json", VIT "num_labels':3,'id2label':{'0':'a','1':'b'}}" } },
		    .data = "{'kind':'image','size':[8,8,3],'classes':2,'class-names':['a','b']}" },
		{ "no class", { { "/config.json", VIT "num_labels':0}" } }, .code = GT_EFORMAT,
		    .says = "/config.json': 'num_labels' must give 1 to " },
		{ "a real number of them", { { "/config.json", VIT "num_labels':3.0}" } },
		    .code = GT_EFORMAT, .says = "/config.json': 'num_labels' must give 1 to " },
		{ "no name", { { "/config.json", VIT "id2label':{}}" } }, .code = GT_EFORMAT,
		    .says = "/config.json': 'id2label' must give 1 to " },
		{ "names in a list", { { "/config.json", VIT "id2label':['a','b']}" } },
		    .code = GT_EFORMAT, .says = "/config.json': 'id2label' must be an object" },
		{ "made-up classes",
		    { { "/config.json", VIT "id2label':{'0':'LABEL_0','1':'LABEL_1'}}" } },
		    .data = "{'kind':'image','size':[8,8,3],'classes':2}" },
		{ "one label is a number to predict",
		    { { "/config.json", VIT "id2label':{'0':'LABEL_0'},'problem_type':null}" } },
		    .data = "{'kind':'image','size':[8,8,3]" NUMBER "}" },
		{ "without its name", { { "/config.json", VIT "num_labels':1}" } },
		    .data = "{'kind':'image','size':[8,8,3]" NUMBER "}" },
		{ "by its name",
		    { { "/config.json", VIT "problem_type':'regression','id2label':{'0':'a'}}" } },
		    .data = "{'kind':'image','size':[8,8,3]" NUMBER "}" },
		{ "unless it is a class",
		    { { "/config.json",
		        VIT "problem_type':'single_label_classification','id2label':{'0':'a'}}" } },
		    .data = "{'kind':'image','size':[8,8,3],'classes':1,'class-names':['a']}" },
		{ "several numbers", { { "/config.json", VIT "problem_type':'regression'}" } },
		    .code = GT_ENOTSUP,
		    .says = "/config.json': 'problem_type' is 'regression' with 2 labels" },
		{ "a class without a name",
		    { { "/config.json", VIT "id2label':{'0':'a','2':'b'}}" } }, .code = GT_EFORMAT,
		    .says = "/config.json': 'id2label' has no name for '1'" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		expect(&cases[i]);
}

/* ---- integers beyond 64 bits, and NaN ---- */

static void large_integers_are_read_where_nobody_uses_them(void **state)
{
#define LARGE "1000000000000000019884624838656"
	static const struct folder cases[] = {
		{ "a tokenizer without a limit",
		    { { "/config.json", GPT2 "bos_token_id':5}" },
		        { "/tokenizer_config.json",
		            "{'model_max_length':" LARGE ",'add_bos_token':true}" } },
		    .data = "{'kind':'tokens','classes':0,'bos':5}" },
		{ "config.json", { { "/config.json", GPT2 "max_length':" LARGE "}" } },
		    .data = "{'kind':'tokens','classes':0}" },
		{ "generation_config.json",
		    { { "/config.json", GPT2 "eos_token_id':7}" },
		        { "/generation_config.json", "{'seed':-" LARGE ",'top_p':NaN}" } },
		    .data = "{'kind':'tokens','classes':0,'eos':[7]}" },
		{ "preprocessor_config.json",
		    { { "/config.json", RESNET "num_channels':3}" },
		        { "/preprocessor_config.json", PIXELS ",'x':" LARGE "}" } },
		    .data = "{'kind':'image','size':[32,32,3],'classes':2" SQUASH ","
		            "'mean':[0.5,0.25,0.125],'std':[1.0,2.0,4.0]}" },
		{ "a setting", { { "/config.json", GPT2 "n_inner':" LARGE "}" } },
		    .code = GT_EFORMAT, .says = "/config.json': 'n_inner': " },
		{ "a real number in place of an integer",
		    { { "/config.json", VIT "num_channels':3.0}" } }, .code = GT_ENOTSUP,
		    .says = "/config.json': 'num_channels' is 3.0, which is not supported" },
		{ "a setting that is NaN", { { "/config.json", GPT2 "layer_norm_epsilon':NaN}" } },
		    .code = GT_ENOTSUP,
		    .says =
		        "/config.json': 'layer_norm_epsilon' is 'NaN', which is not supported" },
		{ "an end", { { "/config.json", GPT2 "eos_token_id':" LARGE "}" } },
		    .code = GT_EFORMAT, .says = "/config.json': 'eos_token_id' must be an id" },
		{ "a beginning",
		    { { "/config.json", GPT2 "bos_token_id':" LARGE "}" },
		        { "/tokenizer_config.json", "{'add_bos_token':true}" } },
		    .code = GT_EFORMAT, .says = "/config.json': 'bos_token_id' must be an id" },
		{ "a size",
		    { { "/config.json", VIT "num_channels':3}" },
		        { "/preprocessor_config.json", "{'size':{'shortest_edge':" LARGE "}}" } },
		    .code = GT_EFORMAT,
		    .says = "/preprocessor_config.json': 'size' must be a number of pixels" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		expect(&cases[i]);
}

/* ---- damage ---- */

static void damage_is_told_with_its_file(void **state)
{
	static const struct folder cases[] = {
		{ "no config.json", { { "/model.safetensors", "" } }, .code = GT_EIO,
		    .says = "' has no config.json" },
		{ "a cut one", { { "/config.json", GPT2 } }, .code = GT_EFORMAT,
		    .says = "/config.json': line 1: " },
		{ "a key twice", { { "/config.json", "{'model_type':'gpt2','model_type':'vit'}" } },
		    .code = GT_EFORMAT, .says = "/config.json': line 1: duplicate object key" },
		{ "a list", { { "/config.json", "[1]" } }, .code = GT_EFORMAT,
		    .says = "/config.json': there is no 'model_type'" },
		{ "no model_type", { { "/config.json", "{}" } }, .code = GT_EFORMAT,
		    .says = "/config.json': there is no 'model_type'" },
		{ "a folder in its place", { { "/config.json/a", "" } }, .code = GT_EIO,
		    .says = "/config.json' is a directory" },
		{ "a cut companion",
		    { { "/config.json", GPT2 "eos_token_id':7}" },
		        { "/generation_config.json", "{\n\n" } },
		    .code = GT_EFORMAT, .says = "/generation_config.json': line 3: " },
		{ "another",
		    { { "/config.json", GPT2 "eos_token_id':7}" },
		        { "/tokenizer_config.json", "" } },
		    .code = GT_EFORMAT, .says = "/tokenizer_config.json': line 1: " },
		{ "one of images",
		    { { "/config.json", VIT "num_channels':3}" },
		        { "/preprocessor_config.json", "}" } },
		    .code = GT_EFORMAT, .says = "/preprocessor_config.json': line 1: " },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		expect(&cases[i]);
}

/* A file of 5 MB is no config.json; it is not read. */
static void too_large_a_file_is_refused(void **state)
{
	enum { SIZE = 5000000 };
	char *text = malloc(SIZE + 1);
	struct folder f = { "too large", { { "/config.json", text } }, .code = GT_EFORMAT,
		.says = "/config.json': 5000000 bytes, more than " };

	(void)state;
	assert_non_null(text);
	memset(text, ' ', SIZE);
	text[SIZE] = '\0';
	expect(&f);
	free(text);
}

static void folders_are_known_by_their_model_type(void **state)
{
	static const struct {
		const char *config;
		bool is;
	} cases[] = { { "{'model_type':'xyz'}", true }, { "{'model_type':1}", false },
		{ "{'model':'lenet','data':'x'}", false }, { "{'model_type':'gpt2'", false },
		{ "['model_type']", false } };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct folder f = { .files = { { "/config.json", cases[i].config } } };
		char root[PLANTED_ROOT], file[PLANTED_ROOT + 20];

		make(root, &f);
		assert_int_equal(gt_pretrained_is_folder(root), cases[i].is);
		strcat(strcpy(file, root), "/config.json");
		assert_false(gt_pretrained_is_folder(file));
		planted_remove(root);
		assert_false(gt_pretrained_is_folder(root));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_have_their_first_and_last_tokens),
		cmocka_unit_test(images_have_their_size_and_numbers),
		cmocka_unit_test(pixels_have_their_scale),
		cmocka_unit_test(pictures_are_resized_as_the_processor_says),
		cmocka_unit_test(images_have_their_labels),
		cmocka_unit_test(large_integers_are_read_where_nobody_uses_them),
		cmocka_unit_test(damage_is_told_with_its_file),
		cmocka_unit_test(too_large_a_file_is_refused),
		cmocka_unit_test(folders_are_known_by_their_model_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
