/* test_data_errors.c - errors of data sets name the fault, and a hint the remedy. */
#include "lib/base/option_names.h"
#include "tests/unit/data_fixture.h"

struct wrong {
	const char *spec; /* @ stands for the fixture's folder */
	int code;
	const char *text, *hint; /* parts of them; NULL: none wanted */
};

static struct fixture fixture;

static void put_be32(uint8_t *p, uint32_t n)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(n >> (24 - 8 * i));
}

/* Write another size into a PNG's header, and its checksum. */
static void claim_size(uint8_t *png, uint32_t width, uint32_t height)
{
	put_be32(png + 16, width);
	put_be32(png + 20, height);
	put_be32(png + 29, (uint32_t)crc32(0, png + 12, 17));
}

static void make_texts(const struct fixture *f)
{
	put_text(f, "short.txt", "hello");
	put_text(f, "tok/tokenizer.json",
	    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"u\": 2}, "
	    "\"merges\": [], \"unk_token\": \"a\"}}");
	put_text(f, "list.jsonl", "{\"text\": \"a\"}\n\n[1]\n");
	put_text(f, "blank.jsonl", "\n  \n");
	put_text(f, "chat.jsonl",
	    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
	    "{\"role\": \"assistant\", \"content\": \"b\"}]}\n");
	put_text(f, "wordless.jsonl", "{\"text\": \"a\"}\n");
	put_text(f, "share.jsonl",
	    "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, "
	    "{\"from\": \"parrot\", \"value\": \"b\"}]}\n");
	put_text(f, "roleless.jsonl", "{\"messages\": [{\"content\": \"a\"}]}\n");
	put_text(
	    f, "unanswered.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n");
	put_text(f, "long.jsonl",
	    "{\"prompt\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\", "
	    "\"completion\": \"b\"}\n");
	put_text(f, "good.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
	put_text(f, "macro.jinja", "a\n{% macro x() %}{% endmacro %}");
	put_text(f, "raise.jinja", "{{ raise_exception('no ' + messages[0].role) }}");
	put_text(f, "today.jinja", "{{ strftime_now('%Y') }}");
	put_text(f, "turned.jinja", "{% for m in messages[::-1] %}{{ m.content }}{% endfor %}");
	put_bytes(f, "latin1.txt", "caf\xE9 au lait", 12);
	put_text(f, "empty/readme.md", "no text here");
	put_text(f, "vocab.json", "{\"level\":\"char\",\"tokens\":[\"a\",\"b\"]}");
	put_text(f, "broken.json", "{\"level\":\"char\",\"tokens\":[\"a\",\"a\"]}");
	put_text(f, "abc.txt", "abababab\xC3\xA9");
}

static void make_idx_files(const struct fixture *f)
{
	static uint8_t bytes[1 << 16];
	size_t n;

	n = make_idx(bytes, 20, 4);
	put_bytes(f, "idx/t10k-images-idx3-ubyte", bytes, n);
	put_bytes(f, "idx-short/t10k-images-idx3-ubyte", bytes, n - 1);
	bytes[3] = 4;
	put_bytes(f, "idx-magic/t10k-images-idx3-ubyte", bytes, n);
	bytes[3] = 3;
	put_gz(f, "idx-gz/t10k-images-idx3-ubyte.gz", bytes, n);
	cut_file(f, "idx-gz/t10k-images-idx3-ubyte.gz", 9);
	n = make_idx(bytes, 19, 0);
	put_bytes(f, "idx/t10k-labels-idx1-ubyte", bytes, n);
}

/* A PNG of 4 x 4 pixels with 2 colors, one pixel of each row being of color 7. */
static const char palette_png[] =
    "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x04"
    "\x00\x00\x00\x04\x08\x03\x00\x00\x00\x9e\x2f\x6e\x4c\x00\x00\x00\x06\x50\x4c\x54"
    "\x45\x00\x01\x02\x03\x04\x05\x24\x4e\xd7\x26\x00\x00\x00\x0f\x49\x44\x41\x54\x78"
    "\x9c\x63\x60\x60\x64\x67\x60\x40\x25\x00\x01\x48\x00\x21\x5a\x63\x8f\xe3\x00\x00"
    "\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

static void make_images(const struct fixture *f)
{
	static uint8_t bytes[1 << 16];
	size_t n;

	put_png(f, "sizes/a/1.png", 8, 8, 1);
	put_png(f, "sizes/a/2.png", 8, 8, 1);
	put_png(f, "sizes/b/3.png", 8, 9, 1);
	put_png(f, "flat/1.png", 8, 8, 1);
	put_png(f, "hollow/a/1.png", 8, 8, 1);
	put_text(f, "hollow/b/notes.txt", "");
	put_png(f, "one-split/train/a/1.png", 8, 8, 1);
	put_jpeg(f, "cut/a/1.jpg", 64, 64, 100);
	cut_file(f, "cut/a/1.jpg", 600);
	n = make_png(bytes, sizeof(bytes), 8, 8, 1);
	claim_size(bytes, 16, 8);
	put_bytes(f, "liar/a/1.png", bytes, n);
	claim_size(bytes, 8, 4);
	put_bytes(f, "small-liar/a/1.png", bytes, n);
	claim_size(bytes, 8000, 8000);
	put_bytes(f, "big-liar/a/1.png", bytes, n);
	claim_size(bytes, 1 << 20, 8000);
	put_bytes(f, "huge/a/1.png", bytes, n);
	put_bytes(f, "palette/a/1.png", palette_png, sizeof(palette_png) - 1);
	put_text(f, "fake/a/1.png", "this is not an image");
	put_text(f, "not.tar", "this is no archive");
	memset(bytes, 'x', 2048);
	put_bytes(f, "noise.tar", bytes, 2048);
}

static void make_tables(const struct fixture *f)
{
	put_text(f, "word.csv", "x,y,class\n1,2,a\n3,oops,b\n");
	put_text(f, "plain.csv", "1,2,0\n3,oops,1\n");
	put_text(f, "fields.csv", "1,2,0\n\n1,2\n");
	put_text(f, "quote.csv", "1,2,\"a\n");
	put_text(f, "none.csv", "");
	put_text(f, "mixed.csv", "1,2,0\n1,2,cat\n");
	put_text(f, "negative.csv", "1,2,0\n1,2,-1\n");
	put_text(f, "fraction.csv", "1,2,0\n1,2,x\n1,2,0.5\n");
	put_text(f, "fraction-word.csv", "1,1.5\n2,3\n3,cat\n");
	put_text(f, "first-na.csv", "NA,red,hi\n5,blue,lo\n");
	put_text(f, "first-inf.csv", "-Infinity,red,hi\n5,blue,lo\n");
	put_text(f, "first-lower.csv", "n/a,red,hi\n5,blue,lo\n");
	put_text(f, "null.csv", "x,class\n1,none\n2,Null\n3,a\n");
	put_text(f, "first-none.csv", "none,red,hi\n5,blue,lo\n");
	put_text(f, "first-unit.csv", "12%,red,hi\n5,blue,lo\n");
	put_text(f, "real.csv", "1,2,0\n1,2,0.5\n");
	put_text(f, "first.csv", "1,oops,0\n1,2,1\n");
	put_text(f, "missing.csv", "1,,0\n1,2,1\n");
	put_text(f, "inf.csv", "1,2,0\n1,inf,1\n");
	put_text(f, "large.csv", "1,2,0\n1,-1e39,1\n");
	put_text(f, "first-large.csv", "1e400,2,0\n1,2,1\n");
	put_text(f, "large-target.csv", "1,1e200\n2,3\n3,4\n");
	put_text(f, "late-large.csv", "1,5.5\n2,3\n3,1e200\n");
	put_text(f, "large-head.csv", "a,b\n1e39,x\n2,y\n");
	put_text(f, "large-all.csv", "a,b\n1e39,x\n1e40,y\n");
	put_text(f, "near.csv", "1e-30,0\n1.000000000000001e-30,1\n1.000000000000002e-30,0\n");
	put_text(f, "gap.csv", "x,y,class\n1,red,a\n3,,b\n");
	put_text(f, "late.csv", "1,oops,0\n1,ouch,1\n1,2,1\n");
	put_text(f, "years.csv", "place,2019,class\na,1,1\nb,2,0\n");
	put_text(f, "twice.csv", "x,y,x,class\n1,2,3,a\n3,4,5,b\n");
	put_text(f, "na.csv", "x,class\n1,a\n2,NA\n");
	put_text(f, "one.csv", "x,y,class\n");
	put_text(f, "nan.csv", "1,2,0\n1,nan,1\n");
}

static int make_fixture(void **state)
{
	(void)state;
	fixture_open(&fixture);
	make_texts(&fixture);
	make_idx_files(&fixture);
	make_images(&fixture);
	make_tables(&fixture);
	return 0;
}

static int remove_fixture(void **state)
{
	(void)state;
	fixture_close(&fixture);
	return 0;
}

/* Settings that name a tokenizer of bytes and a template. */
#define TEMPLATE(name) ",tokenizer=@/tok,template=@/" name ".jinja"

static const struct wrong wrongs[] = {
	/* the form of the data's name */
	{ "imges:@", GT_EINVAL, "unknown kind of data 'imges'", "did you mean 'images:" },
	{ "text", GT_EINVAL, "data 'text' has no path", "text:FILE|FOLDER" },
	{ "text:", GT_EINVAL, "data 'text' has no path", "text:FILE|FOLDER" },
	{ "images:@/sizes,siz=8", GT_EINVAL, "unknown option 'siz' for 'images' data",
	    "split, size, resize, crop, interpolation, reduce, channels, norm, mean, std" },
	{ "images:@/sizes,size=8,reduce=2", GT_EINVAL, "data option 'reduce=2'", "no, yes" },
	{ "text:@/a,b.txt", GT_EINVAL, "'b.txt' is not of the form key=value", "'\\,'" },
	{ "text:@/a\\,b.txt", GT_EIO, "cannot open '@/a,b.txt': No such file", "check the path" },
	{ "images:@/sizes,size=8,size=9", GT_EINVAL, "'size' is given twice", NULL },
	{ "images:@/sizes,size=0", GT_EINVAL, "'size=0': not a whole number from 1 to", NULL },
	{ "images:@/sizes,size=8,mean=1/2", GT_EINVAL, "'mean=1/2': expected 3 numbers", "0 to 1" },
	{ "images:@/sizes,size=8,std=0", GT_EINVAL, "'std=0': a deviation must be above 0", NULL },
	{ "images:@/sizes,split=val", GT_EINVAL, "has no sub-folder 'val'", "split=val" },
	{ "images:@/sizes,split=", GT_EINVAL, "'split=': must be the name of a folder", "" },
	{ "images:@/sizes,split=a/b", GT_EINVAL, "'split=a/b': must be the name of a folder", "" },
	{ "images:@/sizes,split=..", GT_EINVAL, "'split=..': must be the name of a folder", "" },
	/* text */
	{ "csv:@/t.parquet", GT_ENOTSUP, "'@/t.parquet': Parquet files are not read",
	    "/t.parquet').to_csv('data.csv', index=False)\"" },
	{ "text:@/t.parquet", GT_ENOTSUP, "Parquet files are not read",
	    "orient='records', lines=True)" },
	{ "chat:@/t.parquet", GT_ENOTSUP, "Parquet files are not read", "chat:data.jsonl" },
	{ "images:@/t.parquet", GT_ENOTSUP, "Parquet files are not read",
	    "a folder for each class" },
	{ "text:@/missing.txt", GT_EIO, "cannot open '@/missing.txt': No such file",
	    "check the path" },
	{ "text:@/empty", GT_EINVAL, "'@/empty' has no .txt files", ".txt" },
	{ "text:@/short.txt", GT_EINVAL, "has 5 tokens, too few for one block of 64",
	    "shorter block" },
	{ "text:@/latin1.txt", GT_EFORMAT, "'@/latin1.txt': not UTF-8 at byte 3", "level=byte" },
	{ "text:@/short.txt,level=bpe", GT_EINVAL, "needs a tokenizer", "tokenizer=DIR" },
	{ "text:@/short.txt,level=char,tokenizer=x", GT_EINVAL, "is for level=bpe", "" },
	{ "text:@/short.txt,tokenizer=@/none", GT_EIO, "none", "" },
	{ "text:@/short.txt,tokenizer=/", GT_EIO, "holds no tokenizer", "merges.txt" },
	/* JSON lines */
	{ "jsonl:@/short.txt", GT_EFORMAT, "'@/short.txt' line 1: not JSON: column 5", "" },
	{ "jsonl:@/list.jsonl", GT_EFORMAT, "'@/list.jsonl' line 3: the line is not an object",
	    "jq -c '.[]'" },
	{ "jsonl:@/chat.jsonl", GT_EFORMAT, "line 1: the row has no text 'text'", "kind chat" },
	{ "jsonl:@/blank.jsonl", GT_EFORMAT, "'@/blank.jsonl' has no lines", "" },
	{ "jsonl:@/nowhere*", GT_EIO, "nowhere", "" },
	{ "chat:@/chat.jsonl", GT_EINVAL, "need a tokenizer with special tokens", "tokenizer=DIR" },
	{ "chat:@/chat.jsonl,tokenizer=@/tok", GT_EINVAL, "no chat template beside the tokenizer",
	    "chat_template.jinja" },
	{ "chat:@/chat.jsonl" TEMPLATE("macro"), GT_ENOTSUP,
	    "the chat template: line 2: statement 'macro' is not supported", "" },
	{ "chat:@/chat.jsonl" TEMPLATE("raise"), GT_EFORMAT,
	    "'@/chat.jsonl' line 1: the chat template: line 1: the template refuses the "
	    "conversation: no user",
	    "" },
	{ "chat:@/chat.jsonl" TEMPLATE("today"), GT_ENOTSUP, "the template asks for the date",
	    "date=YYYY-MM-DD" },
	{ "chat:@/chat.jsonl" TEMPLATE("good") ",date=2025-13-01", GT_EINVAL,
	    "'2025-13-01' is not a date of the form YYYY-MM-DD", "" },
	{ "chat:@/chat.jsonl" TEMPLATE("turned"), GT_EFORMAT,
	    "line 1: the chat template writes the messages before message 2 in another way",
	    "answers=each" },
	{ "chat:@/chat.jsonl" TEMPLATE("good") ",answers=some", GT_EINVAL, "no such choice",
	    "all, last, each" },
	{ "chat:@/wordless.jsonl" TEMPLATE("good"), GT_EFORMAT,
	    "line 1: the row has neither \"messages\", \"conversations\"", "kind jsonl" },
	{ "chat:@/share.jsonl" TEMPLATE("good"), GT_ENOTSUP, "line 1: message 2 is from 'parrot'",
	    "human, gpt" },
	{ "chat:@/roleless.jsonl" TEMPLATE("good"), GT_EFORMAT, "message 1 has no \"role\"", "" },
	{ "chat:@/unanswered.jsonl" TEMPLATE("good"), GT_EINVAL,
	    "has no conversation with an answer", "" },
	{ "chat:@/long.jsonl" TEMPLATE("good"), GT_EINVAL,
	    "has no conversation with an answer that begins within the block", "longer block" },
	/* mnist */
	{ "mnist:@/nowhere", GT_EIO, "No such file", "t10k-images-idx3-ubyte" },
	{ "mnist:@/idx,split=train", GT_EIO, "train-images-idx3-ubyte", "train-labels-idx1-ubyte" },
	{ "mnist:@/idx", GT_EFORMAT, "20 images, but 19 labels", NULL },
	{ "mnist:@/idx-short", GT_EFORMAT, "319 bytes of values where the header promises 320",
	    "download it again" },
	{ "mnist:@/idx-magic", GT_EFORMAT, "magic number 0x00000804 where 0x00000803", "idx file" },
	{ "mnist:@/idx-gz", GT_EFORMAT, "truncated gzip data", "cut short" },
	/* images */
	{ "images:@/nowhere", GT_EIO, "cannot open '@/nowhere': No such file", "check the path" },
	{ "images:@/flat", GT_EINVAL, "'@/flat' has no class folders, only images",
	    "FOLDER/CLASS" },
	{ "images:@/idx", GT_EINVAL, "'@/idx' has no class folders", "FOLDER/CLASS" },
	{ "images:@/hollow", GT_EINVAL, "the class folder 'b' in '@/hollow' has no images",
	    "remove" },
	{ "images:@/sizes", GT_EINVAL, "'a/1.png' has 8 x 8 pixels, but 'b/3.png' 8 x 9",
	    "size=N" },
	{ "images:@/sizes,size=8,split=test", GT_EINVAL, "has no sub-folder 'test'", "split=test" },
	{ "images:@/one-split,split=test", GT_EINVAL, "has no sub-folder 'test'", "split=test" },
	{ "images:@/cut", GT_EFORMAT, "'@/cut/a/1.jpg': corrupt JPEG: Premature end", "replace" },
	{ "images:@/liar", GT_EFORMAT, "'@/liar/a/1.png': corrupt PNG: Not enough image data",
	    "replace" },
	{ "images:@/small-liar", GT_EFORMAT, "corrupt PNG: more pixels than its size allows",
	    NULL },
	{ "images:@/big-liar", GT_EFORMAT, "8000 x 8000 pixels cannot come out of", "replace" },
	{ "images:@/huge", GT_EFORMAT, "an image of 1048576 x 8000 pixels", "67108864 pixels" },
	{ "images:@/palette", GT_EFORMAT, "corrupt PNG: a pixel's index is beyond its palette",
	    "replace" },
	{ "images:@/fake", GT_EFORMAT, "neither a JPEG, a PNG nor a WebP", "an image is needed" },
	{ "images:@/not.tar", GT_EFORMAT, "neither a folder nor a tar archive", ".tar.gz" },
	{ "images:@/noise.tar", GT_EFORMAT, "neither a folder nor a tar archive", ".tar.gz" },
	/* csv */
	{ "csv:@/word.csv", GT_EFORMAT, "line 3, column 'y': 'oops' is not a number",
	    "target=COLUMN" },
	{ "csv:@/plain.csv", GT_EFORMAT, "line 2, column 1: 'oops' is not a number",
	    "target=COLUMN" },
	{ "csv:@/first.csv", GT_EFORMAT, "line 2, column 1: '2' is a number, but line 1 has 'oops'",
	    "if line 1 names the columns, add header=yes" },
	{ "csv:@/late.csv", GT_EFORMAT, "line 3, column 1: '2' is a number, but line 1 has 'oops'",
	    "categories=1 reads" },
	{ "csv:@/years.csv", GT_EFORMAT,
	    "line 2, column 2: the target '1' is a number, but line 1 has 'class'",
	    "if line 1 names the columns, add header=yes" },
	{ "csv:@/missing.csv", GT_EFORMAT, "line 1, column 1: the value is missing",
	    "missing=mean" },
	{ "csv:@/nan.csv", GT_EFORMAT, "line 2, column 1: the value is missing ('nan')", "skip=" },
	{ "csv:@/inf.csv", GT_EFORMAT, "line 2, column 1: 'inf' is not a number", "finite" },
	{ "csv:@/large.csv", GT_EFORMAT,
	    "line 2, column 1: '-1e39' is beyond the range of float32, +-3.4e38",
	    "write the column in another unit" },
	{ "csv:@/first-large.csv", GT_EFORMAT,
	    "line 1, column 0: '1e400' is beyond the range of float32, +-3.4e38",
	    "write the column in another unit" },
	{ "csv:@/large-head.csv", GT_EFORMAT, "line 2, column 'a': '1e39' is beyond the range",
	    "write the column in another unit" },
	{ "csv:@/large-all.csv", GT_EFORMAT, "line 2, column 'a': '1e39' is beyond the range",
	    "write the column in another unit" },
	{ "csv:@/large-target.csv,task=regression", GT_EFORMAT,
	    "line 1, column 1: the target '1e200' is beyond the range of float32, +-3.4e38",
	    "write the column in another unit" },
	{ "csv:@/large-target.csv", GT_EFORMAT, "line 1, column 1: the target '1e200' is beyond",
	    "write the column in another unit" },
	{ "csv:@/late-large.csv", GT_EFORMAT, "line 3, column 1: the target '1e200' is beyond",
	    "write the column in another unit" },
	{ "csv:@/near.csv,standardise=no", GT_EFORMAT,
	    "'@/near.csv': column 0: float32 has one number for all its numbers",
	    "leave out standardise=no" },
	{ "csv:@/gap.csv", GT_EFORMAT, "line 3, column 'y': the value is missing", NULL },
	{ "csv:@/plain.csv,sep=x", GT_EINVAL, "'sep=x': not comma, tab, semicolon or bar", NULL },
	{ "csv:@/plain.csv,sep=;", GT_EFORMAT, "the rows have 1 field", "sep=" },
	{ "csv:@/plain.csv,skip=7", GT_EINVAL, "'skip=7': there is no column '7'", "0 to 2" },
	{ "csv:@/word.csv,skip=x/y", GT_EINVAL, "no column is left", NULL },
	{ "csv:@/word.csv,skip=x/y/class", GT_EINVAL, "no column is left to be the target", NULL },
	{ "csv:@/word.csv,skip=y/2,target=class", GT_EINVAL,
	    "data option 'skip=y/2': column 'class' is the target", NULL },
	{ "csv:@/word.csv,categories=class", GT_EINVAL,
	    "data option 'categories=class': column 'class' is the target", NULL },
	{ "csv:@/word.csv,skip=y,categories=y", GT_EINVAL,
	    "data option 'categories=y': column 'y' is skipped already", NULL },
	{ "csv:@/twice.csv", GT_EFORMAT, "columns 0 and 2 have the same name, 'x'", "rename" },
	{ "csv:@/twice.csv,skip=x", GT_EINVAL, "columns 0 and 2 have the same name, 'x'",
	    "by its number" },
	{ "csv:@/twice.csv,skip=0/2,target=x", GT_EINVAL, "columns 0 and 2 have the same name",
	    NULL },
	{ "csv:@/na.csv", GT_EFORMAT, "line 3, column 'class': the target is missing ('NA')",
	    "leave out the row" },
	{ "csv:@/word.csv,categories=z", GT_EINVAL, "'categories=z': there is no column 'z'",
	    "columns: 'x' to '" },
	{ "csv:@/one.csv,header=yes", GT_EFORMAT, "no rows behind the header", NULL },
	{ "csv:@/one.csv,standardise=maybe", GT_EINVAL, "no such choice", "no, yes" },
	{ "csv:@/fields.csv", GT_EFORMAT, "line 3 has 2 fields where the first row has 3",
	    "divided by ','" },
	{ "csv:@/quote.csv", GT_EFORMAT, "line 1: a quote is never closed", "twice" },
	{ "csv:@/none.csv", GT_EFORMAT, "there are no rows", NULL },
	{ "csv:@/mixed.csv", GT_EFORMAT, "line 2, column 2: the target 'cat' is not a number",
	    "all of one sort" },
	{ "csv:@/mixed.csv,task=classification", GT_EFORMAT, "the target 'cat' is not a number",
	    NULL },
	{ "csv:@/fraction-word.csv", GT_EFORMAT,
	    "line 3, column 1: the target 'cat' is not a number", NULL },
	{ "csv:@/negative.csv", GT_EFORMAT, "target '-1' is out of range", NULL },
	{ "csv:@/fraction.csv", GT_EFORMAT, "line 2, column 2: the target 'x' is not a number",
	    NULL },
	/* a first row of values, one of them missing or not finite, is not a header */
	{ "csv:@/first-na.csv", GT_EFORMAT, "line 1, column 0: the value is missing ('NA')",
	    "missing=mean" },
	{ "csv:@/first-inf.csv", GT_EFORMAT, "line 1, column 0: '-Infinity' is not a number",
	    "numbers are finite" },
	{ "csv:@/first-lower.csv", GT_EFORMAT, "line 1, column 0: the value is missing ('n/a')",
	    "missing=" },
	{ "csv:@/null.csv", GT_EFORMAT, "line 3, column 'class': the target is missing ('Null')",
	    NULL },
	{ "csv:@/first-none.csv", GT_EFORMAT, "line 1, column 0: the value is missing ('none')",
	    "missing=drop" },
	{ "csv:@/first-unit.csv", GT_EFORMAT,
	    "line 2, column 0: '5' is a number, but line 1 has '12%'", "header=yes" },
	{ "csv:@/real.csv,task=classification", GT_EFORMAT, "target '0.5' is not a whole number",
	    NULL },
	{ "csv:@/mixed.csv,task=regression", GT_EFORMAT, "target 'cat' is not a number",
	    "all of one sort" },
	{ "csv:@/word.csv,labels=y", GT_EFORMAT, "line 2, column 'y': the label '2' is not 1 or 0",
	    "a label is 1 if it holds, else 0" },
	{ "csv:@/word.csv,labels=class", GT_EFORMAT,
	    "line 2, column 'class': the label 'a' is not a number",
	    "a label is 1 if it holds, else 0" },
	{ "csv:@/word.csv,target=x/y", GT_EINVAL, "'target=x/y': there is no column 'x/y'", NULL },
	{ "csv:@/word.csv,target=z", GT_EINVAL, "there is no column 'z'",
	    "columns: 'x' to 'class'" },
	{ "csv:@/plain.csv,target=3", GT_EINVAL, "there is no column '3'", "0 to 2" },
	/* random */
	{ "random:12", GT_EINVAL, "'random:12' is not of the form random:INPUTS/CLASSES",
	    "784/10" },
	{ "random", GT_EINVAL, "shape of the random data is not known", "random:INPUTS/CLASSES" },
	{ "random:4/2,samples=0", GT_EINVAL, "not a whole number from 1", NULL },
};

/* `text` with the fixture's folder for each @. */
static void expand(char *out, size_t size, const char *text)
{
	size_t used = 0;

	for (; *text && used < size; text++)
		used += (size_t)snprintf(out + used, size - used, *text == '@' ? "%s" : "%.1s",
		    *text == '@' ? fixture.folder : text);
	assert_true(used < size);
}

static void test_wrong_data(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
		const struct wrong *w = &wrongs[i];
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		char spec[512], text[512];
		int rc;

		expand(spec, sizeof(spec), w->spec);
		expand(text, sizeof(text), w->text);
		rc = gt_dataset_open(&data, spec, NULL, &err);
		if (rc != w->code || err.code != w->code || !strstr(err.text, text))
			fail_msg(
			    "%s: %d, '%s'\nwanted %d, '%s'", spec, rc, err.text, w->code, text);
		if (w->hint && !strstr(err.hint, w->hint))
			fail_msg("%s: hint '%s'\nwanted '%s'", spec, err.hint, w->hint);
		assert_null(data);
	}
}

/* The hint about an unknown kind of data lists all of them. */
static void test_unknown_kind(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	const struct gt_data_form *form;
	struct gt_dataset *data;

	(void)state;
	assert_int_equal(gt_dataset_open(&data, "pictures:/no/such", NULL, &err), GT_EINVAL);
	assert_string_equal(err.text, "unknown kind of data 'pictures'");
	for (int i = 0; (form = gt_data_form(i)); i++)
		if (!strstr(err.hint, form->name))
			fail_msg("'%s' lacks '%s'", err.hint, form->name);
}

/* Data as a model of text wants it, without a size of its vocabulary. */
static void test_random_tokens(void **state)
{
	const struct gt_data_request request = { .form.block = 8 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data;
	char hint[sizeof(err.hint)];

	(void)state;
	assert_int_equal(gt_dataset_open(&data, "random", &request, &err), GT_EINVAL);
	assert_string_equal(err.text, "the vocabulary size of the random data is not known");
	gt_option_names_render(hint, sizeof(hint), err.hint, "");
	assert_string_equal(hint, "set it in model, for example gpt:vocab=256");
	assert_null(data);
}

static void test_wrong_vocabulary(void **state)
{
	static const struct {
		const char *vocab, *options, *text;
	} cases[] = {
		{ "vocab.json", "",
		    "character '\xC3\xA9' (U+00E9) at byte 8 is not in the vocabulary" },
		{ "vocab.json", ",level=byte", "level=byte, but the vocabulary" },
		{ "broken.json", "", "broken.json': tokens 0 and 1 are the same" },
		{ "abc.txt", "", "abc.txt': line 1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_data_request request = { .form.block = 4 };
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		char spec[256];

		request.vocab.path = in(&fixture, cases[i].vocab);
		snprintf(spec, sizeof(spec), "text:%s/abc.txt%s", fixture.folder, cases[i].options);
		assert_int_not_equal(gt_dataset_open(&data, spec, &request, &err), 0);
		if (!strstr(err.text, cases[i].text))
			fail_msg("'%s'\nwanted '%s'", err.text, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_data),
		cmocka_unit_test(test_unknown_kind),
		cmocka_unit_test(test_random_tokens),
		cmocka_unit_test(test_wrong_vocabulary),
	};

	return cmocka_run_group_tests(tests, make_fixture, remove_fixture);
}
