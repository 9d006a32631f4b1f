/* whole.c - a copy of a model of ONNX that needs no file beside it. */
#include <string.h>

#include "lib/base/copy.h"
#include "lib/ckpt/onnx/proto.h"
#include "lib/ckpt/onnx/read.h"
#include "lib/ckpt/torch/export.h"

/* Copy a field as it is: the bytes from `start` on that the reader has passed. */
static void keep_field(
    struct gt_buf *out, const unsigned char *start, const struct gt_protobuf_reader *r)
{
	gt_buf_add(out, start, (size_t)(r->p - start));
}

/* Return the elements that a tensor has in another file; NULL: it has none there. */
static const struct gt_storage *find_external(
    const struct gt_ckpt *ckpt, const struct gt_protobuf_field *message, struct gt_arena *arena)
{
	struct gt_protobuf_reader r = { message->bytes, message->size };
	struct gt_protobuf_field field;
	const char *name = "";
	bool outside = false;
	const struct gt_tree *node;

	while (gt_protobuf_next(&r, &field, GT_ERR_IGNORED) > 0) {
		outside |= field.number == GT_ONNX_DATA_LOCATION && field.value == 1;
		if (field.number == GT_ONNX_TENSOR_NAME)
			name = gt_onnx_text(arena, &field, GT_ERR_IGNORED);
	}
	if (!outside || !name)
		return NULL;
	node = gt_tree_get(ckpt->root, name);
	if (!node)
		node = gt_tree_get(ckpt->exported->constants, name);
	return node ? node->tensor.storage : NULL;
}

/* Write a tensor with its elements in it. */
static int embed_tensor(struct gt_buf *graph, const struct gt_protobuf_field *message,
    const struct gt_storage *storage, struct gt_err *err)
{
	struct gt_protobuf_reader r = { message->bytes, message->size };
	const unsigned char *start = r.p;
	struct gt_protobuf_field field;
	struct gt_buf tensor = { 0 };
	int rc;

	while ((rc = gt_protobuf_next(&r, &field, err)) > 0) {
		if (field.number != GT_ONNX_EXTERNAL_DATA && field.number != GT_ONNX_RAW_DATA &&
		    field.number != GT_ONNX_DATA_LOCATION)
			keep_field(&tensor, start, &r);
		start = r.p;
	}
	gt_protobuf_bytes(&tensor, GT_ONNX_RAW_DATA, storage->bytes, storage->size_bytes);
	gt_protobuf_message(graph, GT_ONNX_INITIALIZER, &tensor);
	return rc;
}

static int embed_graph(struct gt_buf *model, const struct gt_ckpt *ckpt,
    const struct gt_protobuf_field *message, struct gt_err *err)
{
	struct gt_protobuf_reader r = { message->bytes, message->size };
	const unsigned char *start = r.p;
	struct gt_protobuf_field field;
	struct gt_buf graph = { 0 };
	struct gt_arena arena = { 0 };
	int rc;

	while ((rc = gt_protobuf_next(&r, &field, err)) > 0) {
		const struct gt_storage *storage = field.number == GT_ONNX_INITIALIZER
		                                       ? find_external(ckpt, &field, &arena)
		                                       : NULL;

		if (!storage)
			keep_field(&graph, start, &r);
		else if (embed_tensor(&graph, &field, storage, err))
			break;
		start = r.p;
	}
	gt_arena_release(&arena);
	gt_protobuf_message(model, GT_ONNX_GRAPH, &graph);
	return rc ? err->code : 0;
}

/* Make a copy of an open model in which no tensor is in another file. */
static int make_whole(struct gt_buf *model, const struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_protobuf_reader r = { ckpt->map.data, ckpt->map.size };
	const unsigned char *start = r.p;
	struct gt_protobuf_field field;
	int rc;

	while ((rc = gt_protobuf_next(&r, &field, err)) > 0) {
		if (field.number != GT_ONNX_GRAPH)
			keep_field(model, start, &r);
		else if (embed_graph(model, ckpt, &field, err))
			return err->code;
		start = r.p;
	}
	return rc ? rc : gt_buf_check(model, err);
}

int gt_onnx_copy(struct gt_file_name to, const char *path, struct gt_err *err)
{
	struct gt_atomic_file file;
	struct gt_buf model = { 0 };
	struct gt_ckpt *ckpt;
	int rc = gt_ckpt_open(&ckpt, path, err);

	if (rc)
		return rc;
	rc = make_whole(&model, ckpt, err);
	if (!rc)
		rc = gt_atomic_open_at(&file, to, err);
	if (!rc) {
		rc = gt_write_at(fileno(file.stream), 0, gt_buf_text(&model), model.length, err);
		if (rc)
			gt_atomic_abandon(&file);
		else
			rc = gt_atomic_commit(&file, err);
	}
	gt_buf_release(&model);
	gt_ckpt_close(ckpt);
	return rc;
}
