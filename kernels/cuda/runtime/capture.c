/* capture.c - record the work of streams, and replay it: CUDA graphs. */
#include "kernels/cuda/runtime/capture.h"

#include <stdlib.h>

#include "kernels/cuda/runtime/host_call.h"
#include "lib/base/mem.h"

struct gt_capture {
	cudaGraphExec_t graph;
	cudaEvent_t passed; /* one stream is to begin behind another's work */
	struct gt_stream *origin;
	struct gt_stream **joined; /* other streams with work in it */
	size_t joined_count, joined_capacity;
};

/*
 * The capture that has begun, and not ended. CUDA, too, looks at calls of this thread alone
 * (cudaStreamCaptureModeThreadLocal): ranks may be threads, and one captures
 * while others allocate.
 */
static _Thread_local struct gt_capture *current_capture;

int gt_cuda_check_not_captured(const struct gt_stream *stream, const char *what, struct gt_err *err)
{
	if (!stream->captured)
		return 0;
	return gt_err_set(
	    err, GT_EDEVICE, "cuda:%d: work with %s cannot be captured", stream->index, what);
}

static void free_capture(struct gt_capture *c)
{
	if (c->graph)
		cudaGraphExecDestroy(c->graph);
	if (c->passed)
		cudaEventDestroy(c->passed);
	cudaGetLastError();
	free(c->joined);
	free(c);
}

int gt_cuda_capture_begin(struct gt_stream *stream, struct gt_err *err)
{
	struct gt_capture *c;
	int rc;

	if (current_capture)
		return gt_err_set(err, GT_EDEVICE,
		    "cuda:%d: a capture begins before the thread's last one has ended",
		    stream->index);
	c = gt_calloc(1, sizeof(*c), err);
	if (!c)
		return GT_ENOMEM;
	c->origin = stream;
	rc = gt_cuda_check(cudaEventCreateWithFlags(&c->passed, cudaEventDisableTiming),
	    stream->index, "cudaEventCreate", err);
	if (!rc)
		rc = gt_cuda_check(
		    cudaStreamBeginCapture(stream->queue, cudaStreamCaptureModeThreadLocal),
		    stream->index, "cudaStreamBeginCapture", err);
	if (rc) {
		free_capture(c);
		return rc;
	}
	stream->captured = true;
	current_capture = c;
	return 0;
}

/*
 * Example of a capture with a second stream. Plans with collectives are not captured today
 * (lib/graph/plan.c), but backend.h allows it:
 *
 *   compute       kernel 1 | record e        | kernel 2 | wait f | kernel 3
 *   collectives             wait e | reduce | record f
 *
 * The wait for e makes the stream of collectives join the capture; the wait for f joins it back,
 * without which CUDA refuses to end the capture. The graph is launched on `compute` alone.
 */
int gt_cuda_note_wait(struct gt_stream *stream, struct gt_err *err)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	struct gt_capture *c = current_capture;
	int rc;

	/* Only this thread's capture matters: captures of other threads are not visible to its
	 * streams. */
	if (!c || stream->captured)
		return 0;
	rc = gt_cuda_check(cudaStreamIsCapturing(stream->queue, &status), stream->index,
	    "cudaStreamIsCapturing", err);
	if (rc || status == cudaStreamCaptureStatusNone)
		return rc;
	if (gt_grow(&c->joined, c->joined_count, &c->joined_capacity, sizeof(*c->joined), err))
		return GT_ENOMEM;
	c->joined[c->joined_count++] = stream;
	stream->captured = true;
	return 0;
}

static int make_graph(struct gt_capture *c, cudaGraph_t graph, struct gt_err *err)
{
	int rc = gt_cuda_check(cudaGraphInstantiate(&c->graph, graph, 0), c->origin->index,
	    "cudaGraphInstantiate", err);

	/* The executable graph has a copy of everything it needs. */
	cudaGraphDestroy(graph);
	cudaGetLastError();
	return rc;
}

int gt_cuda_capture_end(struct gt_capture **out, struct gt_stream *stream, struct gt_err *err)
{
	struct gt_capture *c = current_capture;
	cudaGraph_t graph = NULL;
	int rc;

	*out = NULL;
	if (!c || c->origin != stream)
		return gt_err_set(err, GT_EDEVICE,
		    "cuda:%d: a capture ends that did not begin on this stream", stream->index);
	/* The streams leave the capture before it is checked for errors: they can be used again
	 * even if CUDA has rejected some of the work. */
	current_capture = NULL;
	stream->captured = false;
	for (size_t i = 0; i < c->joined_count; i++)
		c->joined[i]->captured = false;
	rc = gt_cuda_check(cudaStreamEndCapture(stream->queue, &graph), stream->index,
	    "cudaStreamEndCapture", err);
	if (!rc)
		rc = make_graph(c, graph, err);
	if (rc)
		free_capture(c);
	else
		*out = c;
	return rc;
}

/*
 * `then` goes on when `first` has come this far. One event serves for all pairs: a wait is for
 * the record that the event has when the wait is queued, not for later ones (CUDA Runtime API,
 * cudaStreamWaitEvent()).
 */
static int hold_back(struct gt_capture *c, const struct gt_stream *then,
    const struct gt_stream *first, struct gt_err *err)
{
	int rc = gt_cuda_check(
	    cudaEventRecord(c->passed, first->queue), first->index, "cudaEventRecord", err);

	return rc ? rc
	          : gt_cuda_check(cudaStreamWaitEvent(then->queue, c->passed, 0), then->index,
	                "cudaStreamWaitEvent", err);
}

/*
 * CUDA does all work of a graph on the one stream. Streams that joined the capture have lent it
 * their scratch memory, and their work before and after it keeps its order:
 *
 *   origin   work | wait p |  graph  | record p
 *   joined   work, record p           wait p | work
 */
int gt_cuda_replay(struct gt_stream *stream, struct gt_capture *c, struct gt_err *err)
{
	int rc = gt_cuda_check_not_captured(stream, "replays", err);

	if (!rc && stream != c->origin)
		rc = gt_err_set(err, GT_EDEVICE,
		    "cuda:%d: work is replayed on another stream than it was captured on",
		    stream->index);
	for (size_t i = 0; !rc && i < c->joined_count; i++)
		rc = hold_back(c, stream, c->joined[i], err);
	if (!rc)
		rc = gt_cuda_check(cudaGraphLaunch(c->graph, stream->queue), stream->index,
		    "cudaGraphLaunch", err);
	for (size_t i = 0; !rc && i < c->joined_count; i++)
		rc = hold_back(c, c->joined[i], stream, err);
	return rc ? rc : gt_cuda_call_error(stream->index, err);
}

void gt_cuda_capture_free(struct gt_capture *capture)
{
	if (capture)
		free_capture(capture);
}
