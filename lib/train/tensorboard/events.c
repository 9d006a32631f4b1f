/* events.c - records of events, in the format of TensorBoard's files. */
#include "lib/train/tensorboard/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/opt_json.h"
#include "lib/base/protobuf.h"
#include "lib/base/text.h"
#include "lib/train/tensorboard/crc32c.h"

/*
 * A file is a list of records. A record is an event, a message of protocol buffers:
 *
 *   bytes      8     size of the event
 *   bytes      4     masked CRC-32C of these 8 bytes
 *   bytes      size  the event
 *   bytes      4     masked CRC-32C of the event
 *
 * Integers have their lowest byte first. The mask makes the CRC of a record that has CRCs in it
 * useful. The first event has the version of the format. Any other event has a time, a step and a
 * value, whose tag is its name and whose plugin is the part of TensorBoard that shows it.
 *
 * Source: tensorboard/compat/proto (event, summary, tensor), plugins/hparams/plugin_data.proto.
 */

/* The fields of the messages. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };
/* An event has SOURCE_METADATA, a message with SOURCE_WRITER. */
enum { SOURCE_METADATA = 10, SOURCE_WRITER = 1 };
enum { SESSION_LOG_STATUS = 1, SESSION_LOG_START = 1 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE, VALUE_TENSOR = 8, VALUE_METADATA };
enum { METADATA_PLUGIN = 1, METADATA_CLASS = 4, PLUGIN_NAME = 1, PLUGIN_CONTENT };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE, TENSOR_CONTENT = 4, TENSOR_FLOAT, TENSOR_TEXT = 8 };
enum { SHAPE_DIM = 2, DIM_SIZE = 1 };
enum { TYPE_FLOAT = 1, TYPE_DOUBLE, TYPE_STRING = 7 };
enum { HPARAMS_START = 3, HPARAMS_END };
enum { START_HPARAMS = 1, START_TIME = 5, END_STATUS = 1, END_TIME };
enum { MAP_KEY = 1, MAP_VALUE, JSON_NUMBER = 2, JSON_TEXT, JSON_BOOL };

/* The data classes of values. */
enum data_class { CLASS_SCALAR = 1, CLASS_TENSOR, CLASS_BLOBS };

/* ---- records ---- */

/* Log the fault, once, and drop all events from now on. */
static void give_up(struct gt_events *e, const char *reason)
{
	gt_log_warn(e->log, "cannot write '%s': %s; the run continues without it", e->path, reason);
	fclose(e->stream);
	e->stream = NULL;
}

static void put_lowest_first(unsigned char *out, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		out[i] = (unsigned char)(value >> 8 * i);
}

static void put_masked_crc(unsigned char out[4], const void *bytes, size_t size)
{
	uint32_t crc = gt_crc32c(bytes, size);

	put_lowest_first(out, (crc >> 15 | crc << 17) + 0xa282ead8U, 4);
}

/* Write the event as a record. */
static void write_record(struct gt_events *e)
{
	unsigned char head[12], tail[4];

	if (!e->stream)
		return;
	if (e->event.failed) {
		give_up(e, "out of memory");
		return;
	}
	put_lowest_first(head, e->event.length, 8);
	put_masked_crc(head + 8, head, 8);
	put_masked_crc(tail, e->event.text, e->event.length);
	if (fwrite(head, sizeof(head), 1, e->stream) != 1 ||
	    fwrite(e->event.text, e->event.length, 1, e->stream) != 1 ||
	    fwrite(tail, sizeof(tail), 1, e->stream) != 1) {
		give_up(e, strerror(errno));
		return;
	}
	e->pending = true;
	gt_events_flush(e);
}

/* Flush, and find out whether the file was removed, which no error of a write tells. */
static void flush_now(struct gt_events *e)
{
	struct stat st;

	e->pending = false;
	e->flushed = gt_clock_s();
	if (fflush(e->stream))
		give_up(e, strerror(errno));
	else if (!fstat(fileno(e->stream), &st) && !st.st_nlink)
		give_up(e, "it was removed");
}

void gt_events_flush(struct gt_events *e)
{
	if (e->stream && e->pending && gt_clock_s() - e->flushed >= 1)
		flush_now(e);
}

/* ---- events ---- */

static struct gt_buf *begin_event(struct gt_events *e, int64_t step)
{
	gt_buf_cut(&e->event, 0);
	gt_protobuf_double(&e->event, EVENT_WALL_TIME, gt_clock_wall_s());
	gt_protobuf_int(&e->event, EVENT_STEP, step);
	return &e->event;
}

/* Readers of protocol buffers refuse a file with a text that is not UTF-8, but names of files and
 * tensors may be any bytes: damaged ones become '?'. */
static void add_utf8(struct gt_buf *b, int field, const char *text)
{
	size_t left = strlen(text), begin = gt_protobuf_begin(b, field);

	while (left) {
		size_t whole = gt_text_utf8_bytes(text, left);

		gt_buf_add(b, text, whole);
		if (whole < left)
			gt_buf_puts(b, "?");
		text += whole + (whole < left);
		left -= whole + (whole < left);
	}
	gt_protobuf_end(b, begin);
}

/* The messages that are open while the fields of a value are added. */
struct open_value {
	size_t summary, value;
};

/* Begin an event with one value. Its plugin gets `content`, if there is any. */
static struct open_value begin_value(struct gt_events *e, int64_t step, const char *tag,
    const char *plugin, const struct gt_buf *content, enum data_class class)
{
	struct gt_buf *b = begin_event(e, step);
	struct open_value open = { .summary = gt_protobuf_begin(b, EVENT_SUMMARY) };
	size_t metadata, data;

	open.value = gt_protobuf_begin(b, SUMMARY_VALUE);
	add_utf8(b, VALUE_TAG, tag);
	metadata = gt_protobuf_begin(b, VALUE_METADATA);
	data = gt_protobuf_begin(b, METADATA_PLUGIN);
	gt_protobuf_text(b, PLUGIN_NAME, plugin);
	if (content)
		gt_protobuf_bytes(b, PLUGIN_CONTENT, gt_buf_text(content), content->length);
	gt_protobuf_end(b, data);
	gt_protobuf_int(b, METADATA_CLASS, class);
	gt_protobuf_end(b, metadata);
	return open;
}

static void end_value(struct gt_events *e, struct open_value open)
{
	gt_protobuf_end(&e->event, open.value);
	gt_protobuf_end(&e->event, open.summary);
	write_record(e);
}

/* Begin a tensor; the caller adds its elements and ends the message. */
static size_t begin_tensor(struct gt_buf *b, int type, int ndim, const int64_t *dims)
{
	size_t tensor = gt_protobuf_begin(b, VALUE_TENSOR), shape;

	gt_protobuf_int(b, TENSOR_TYPE, type);
	shape = gt_protobuf_begin(b, TENSOR_SHAPE);
	for (int i = 0; i < ndim; i++) {
		size_t dim = gt_protobuf_begin(b, SHAPE_DIM);

		gt_protobuf_int(b, DIM_SIZE, dims[i]);
		gt_protobuf_end(b, dim);
	}
	gt_protobuf_end(b, shape);
	return tensor;
}

void gt_events_scalar(struct gt_events *e, int64_t step, const char *tag, double value)
{
	struct open_value open = begin_value(e, step, tag, "scalars", NULL, CLASS_SCALAR);

	gt_protobuf_float(&e->event, VALUE_SIMPLE, (float)value);
	end_value(e, open);
}

/* A tensor without dimensions: TensorBoard puts the elements of others into a table. */
void gt_events_text(struct gt_events *e, int64_t step, const char *tag, const char *markdown)
{
	struct open_value open = begin_value(e, step, tag, "text", NULL, CLASS_TENSOR);
	size_t tensor = begin_tensor(&e->event, TYPE_STRING, 0, NULL);

	add_utf8(&e->event, TENSOR_TEXT, markdown);
	gt_protobuf_end(&e->event, tensor);
	end_value(e, open);
}

void gt_events_histogram(
    struct gt_events *e, int64_t step, const char *tag, size_t count, const double rows[][3])
{
	struct open_value open = begin_value(e, step, tag, "histograms", NULL, CLASS_TENSOR);
	size_t tensor =
	    begin_tensor(&e->event, TYPE_DOUBLE, 2, (const int64_t[]){ (int64_t)count, 3 });

	gt_protobuf_doubles(&e->event, TENSOR_CONTENT, 3 * count, *rows);
	gt_protobuf_end(&e->event, tensor);
	end_value(e, open);
}

/* The first texts of the tensor are the size of the images. */
void gt_events_images(struct gt_events *e, int64_t step, const char *tag, int width, int height,
    int count, const struct gt_buf *pngs)
{
	struct open_value open = begin_value(e, step, tag, "images", NULL, CLASS_BLOBS);
	size_t tensor = begin_tensor(&e->event, TYPE_STRING, 1, (const int64_t[]){ 2 + count });
	char size[2][16];

	snprintf(size[0], sizeof(size[0]), "%d", width);
	snprintf(size[1], sizeof(size[1]), "%d", height);
	gt_protobuf_text(&e->event, TENSOR_TEXT, size[0]);
	gt_protobuf_text(&e->event, TENSOR_TEXT, size[1]);
	for (int i = 0; i < count; i++)
		gt_protobuf_bytes(&e->event, TENSOR_TEXT, gt_buf_text(&pngs[i]), pngs[i].length);
	gt_protobuf_end(&e->event, tensor);
	end_value(e, open);
}

/* ---- hyperparameters ---- */

static void add_hparam(struct gt_buf *b, const char *name, const json_t *value)
{
	char *text = json_is_array(value) ? gt_json_dumps(value, JSON_COMPACT) : NULL;
	size_t entry = gt_protobuf_begin(b, START_HPARAMS), inner;

	add_utf8(b, MAP_KEY, name);
	inner = gt_protobuf_begin(b, MAP_VALUE);
	if (json_is_number(value))
		gt_protobuf_double(b, JSON_NUMBER, json_number_value(value));
	else if (json_is_boolean(value))
		gt_protobuf_int(b, JSON_BOOL, json_is_true(value));
	else if (text || json_is_string(value))
		add_utf8(b, JSON_TEXT, text ? text : json_string_value(value));
	else
		b->failed = true;
	gt_protobuf_end(b, inner);
	gt_protobuf_end(b, entry);
	free(text);
}

/* Write a message of the plugin, which stands in the metadata; the tensor has no meaning. Releases
 * `content`. */
static void write_hparams(struct gt_events *e, const char *tag, struct gt_buf *content)
{
	struct open_value open = begin_value(e, 0, tag, "hparams", content, CLASS_TENSOR);
	size_t tensor = begin_tensor(&e->event, TYPE_FLOAT, 0, NULL);

	gt_protobuf_float(&e->event, TENSOR_FLOAT, 0);
	gt_protobuf_end(&e->event, tensor);
	e->event.failed |= content->failed;
	end_value(e, open);
	gt_buf_release(content);
}

/* TensorBoard shows runs of one group in one row. Without a group, a run has the name of its
 * folder. */
void gt_events_hparams(struct gt_events *e, const json_t *options)
{
	struct gt_buf content = { 0 };
	size_t start = gt_protobuf_begin(&content, HPARAMS_START);
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)options, name, value)
	{
		add_hparam(&content, name, value);
	}
	gt_protobuf_double(&content, START_TIME, gt_clock_wall_s());
	gt_protobuf_end(&content, start);
	write_hparams(e, "_hparams_/session_start_info", &content);
}

void gt_events_end(struct gt_events *e, enum gt_session_status status)
{
	struct gt_buf content = { 0 };
	size_t end = gt_protobuf_begin(&content, HPARAMS_END);

	gt_protobuf_int(&content, END_STATUS, status);
	gt_protobuf_double(&content, END_TIME, gt_clock_wall_s());
	gt_protobuf_end(&content, end);
	write_hparams(e, "_hparams_/session_end_info", &content);
}

/* ---- the file ---- */

/* The name of this host, with only those characters that every file system takes. */
static void read_host_name(char *out, size_t size)
{
	if (gethostname(out, size - 1))
		strcpy(out, "host");
	out[size - 1] = '\0';
	for (char *p = out; *p; p++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-", *p))
			*p = '-';
}

/* Return the path of a file that does not exist yet; the caller frees it. TensorBoard reads the
 * files of a folder in the order of their names, so the name begins with the time. */
static char *find_new_path(const struct gt_folder *folder, struct gt_err *err)
{
	const long long now = (long long)gt_clock_wall_s();
	char host[65], name[160];
	char *path;

	read_host_name(host, sizeof(host));
	for (int i = 0;; i++) { /* files of one process in one second */
		snprintf(name, sizeof(name), "events.out.tfevents.%010lld.%s.%d.%d", now, host,
		    (int)getpid(), i);
		path = gt_folder_path(folder, name, err);
		if (!path || !gt_file_exists((struct gt_file_name){ folder, path }))
			return path;
		free(path);
	}
}

static int create_file(struct gt_events *e, const struct gt_folder *folder, struct gt_err *err)
{
	int fd, rc;

	e->path = find_new_path(folder, err);
	if (!e->path)
		return GT_ENOMEM;
	rc = gt_file_open(
	    &fd, (struct gt_file_name){ folder, e->path }, O_WRONLY | O_CREAT | O_EXCL, err);
	if (rc)
		return rc;
	e->stream = fdopen(fd, "w");
	if (e->stream)
		return 0;
	rc = gt_err_sys(err, "cannot write '%s'", e->path);
	close(fd);
	return rc;
}

static void write_version(struct gt_events *e)
{
	struct gt_buf *b = begin_event(e, 0);
	size_t source;

	gt_protobuf_text(b, EVENT_VERSION, "brain.Event:2");
	source = gt_protobuf_begin(b, SOURCE_METADATA);
	gt_protobuf_text(b, SOURCE_WRITER, "gtrain");
	gt_protobuf_end(b, source);
	write_record(e);
}

/* Let TensorBoard drop events of `step` and later steps that it has read from older files. */
static void write_session_start(struct gt_events *e, int64_t step)
{
	struct gt_buf *b = begin_event(e, step);
	size_t start = gt_protobuf_begin(b, EVENT_SESSION_LOG);

	gt_protobuf_int(b, SESSION_LOG_STATUS, SESSION_LOG_START);
	gt_protobuf_end(b, start);
	write_record(e);
}

int gt_events_open(struct gt_events *out, const struct gt_folder *folder, int64_t step,
    struct gt_log *log, struct gt_err *err)
{
	int rc;

	*out = (struct gt_events){ .log = log };
	rc = create_file(out, folder, err);
	if (rc) {
		gt_events_close(out);
		return rc;
	}
	write_version(out);
	write_session_start(out, step + 1);
	return 0;
}

void gt_events_close(struct gt_events *e)
{
	if (e->stream)
		flush_now(e);
	if (e->stream && fclose(e->stream))
		gt_log_warn(e->log, "cannot write '%s': %s", e->path, strerror(errno));
	free(e->path);
	gt_buf_release(&e->event);
	*e = (struct gt_events){ 0 };
}
