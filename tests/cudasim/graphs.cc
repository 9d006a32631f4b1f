/* graphs.cc - the simulator's graphs: work of streams that is kept, and done again and again. */
#include <map>
#include <vector>

#include "tests/cudasim/inside.h"

/* For each branch of a capture, how much of its work comes before. */
typedef std::map<int, size_t> clock_of_branches;

struct kept {
	int branch; /* 0: of the stream whose work is captured; then those that joined, in turn */
	item work;
};

/* From beginning to end of a capture. */
struct capture {
	cudasim_stream *origin;
	std::vector<cudasim_stream *> streams; /* by branch */
	std::vector<kept> work;
	std::map<int, clock_of_branches> before; /* by branch */
	std::map<const mark *, clock_of_branches> before_mark;
	bool invalid;
};

struct cudasim_graph {
	int branches;
	std::vector<kept> work;
};

/* Of the calling thread. */
static thread_local std::weak_ptr<struct capture> current;

static void join(clock_of_branches *into, const clock_of_branches &other)
{
	for (const auto &b : other)
		if ((*into)[b.first] < b.second)
			(*into)[b.first] = b.second;
}

cudaError_t cudasim_keep(cudasim_stream *s, const item &like)
{
	capture *c = s->capture.get();
	clock_of_branches *before = &c->before[s->branch];

	(*before)[s->branch]++;
	if (like.kind == item::RECORD)
		c->before_mark[like.at.get()] = *before;
	if (like.kind == item::WAIT)
		join(before, c->before_mark[like.at.get()]);
	c->work.push_back({ s->branch, like });
	return cudaSuccess;
}

static cudaError_t end_with(const std::shared_ptr<struct capture> &c, cudaError_t e)
{
	if (c)
		c->invalid = true;
	return cudasim_return(e);
}

/* The stream joins the mark's capture. */
cudaError_t cudasim_keep_wait(cudasim_stream *s, const std::shared_ptr<mark> &at)
{
	std::shared_ptr<struct capture> of_mark = at->in.lock();
	item i = {};

	if (s->capture && s->capture != of_mark)
		return end_with(s->capture, cudaErrorStreamCaptureIsolation);
	if (!of_mark)
		return cudasim_return(cudaErrorCapturedEvent);
	if (!s->capture) {
		s->capture = of_mark;
		s->branch = (int)of_mark->streams.size();
		of_mark->streams.push_back(s);
	}
	i.kind = item::WAIT;
	i.at = at;
	return cudasim_keep(s, i);
}

cudaError_t cudasim_forbid(const cudasim_stream *s)
{
	return s->capture ? end_with(s->capture, cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t cudasim_forbid_mark(const std::shared_ptr<mark> &at)
{
	return at && at->captured ? end_with(at->in.lock(), cudaErrorCapturedEvent) : cudaSuccess;
}

cudaError_t cudasim_forbid_thread()
{
	std::shared_ptr<struct capture> c = current.lock();

	return c ? end_with(c, cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

/* ---- captures ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	guard g(cudasim_lock);

	if (!stream || mode != cudaStreamCaptureModeThreadLocal)
		return cudasim_return(cudaErrorStreamCaptureUnsupported);
	if (stream->capture)
		return end_with(stream->capture, cudaErrorIllegalState);
	stream->capture = std::make_shared<struct capture>();
	stream->capture->origin = stream;
	stream->capture->streams.push_back(stream);
	stream->branch = 0;
	current = stream->capture;
	return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
	guard g(cudasim_lock);

	*out = !stream->capture           ? cudaStreamCaptureStatusNone
	       : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
	                                  : cudaStreamCaptureStatusActive;
	return cudaSuccess;
}

static bool is_joined(capture *c)
{
	clock_of_branches *before = &c->before[0];

	for (size_t b = 1; b < c->streams.size(); b++)
		if ((*before)[(int)b] < c->before[(int)b][(int)b])
			return false;
	return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
	guard g(cudasim_lock);
	std::shared_ptr<struct capture> c = stream->capture;

	*out = nullptr;
	if (!c)
		return cudasim_return(cudaErrorIllegalState);
	if (c->origin != stream)
		return end_with(c, cudaErrorStreamCaptureUnmatched);
	for (cudasim_stream *s : c->streams)
		s->capture = nullptr;
	if (c->invalid)
		return cudasim_return(cudaErrorStreamCaptureInvalidated);
	if (!is_joined(c.get()))
		return cudasim_return(cudaErrorStreamCaptureUnjoined);
	*out = new cudasim_graph{ (int)c->streams.size(), c->work };
	return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
	(void)flags;
	*out = new cudasim_graph(*graph);
	return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	guard g(cudasim_lock);

	delete graph;
	return cudaSuccess;
}

/* Work of the graph that is already queued keeps its own copies. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
	return cudaGraphDestroy(graph);
}

static cudaError_t queue_mark(cudasim_stream *s, bool waits, const std::shared_ptr<mark> &at)
{
	item i = {};

	i.kind = waits ? item::WAIT : item::RECORD;
	i.at = at;
	return cudasim_queue(s, i);
}

/* Delete the stream now if it is idle, because queuing work may run other work; else when its work
 * is done. */
static void end_stream(cudasim_stream *s)
{
	if (s->first)
		s->ends = true;
	else
		cudasim_delete_stream(s);
}

/* Each branch but the first has a stream of its own: those whose work was captured have no part in
 * it. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
	guard g(cudasim_lock);
	std::vector<cudasim_stream *> streams = { stream };
	std::vector<std::shared_ptr<mark>> ends(1);
	std::map<const mark *, std::shared_ptr<mark>> marks;
	std::shared_ptr<mark> begun = std::make_shared<mark>();

	if (stream->capture)
		return cudasim_forbid(stream);
	if (queue_mark(stream, false, begun) != cudaSuccess)
		return cudasim_device_error(stream->device);
	for (int b = 1; b < graph->branches; b++) {
		streams.push_back(cudasim_new_stream(stream->device));
		ends.push_back(std::make_shared<mark>());
		queue_mark(streams[(size_t)b], true, begun);
	}
	for (const kept &k : graph->work) {
		item i = k.work;
		std::shared_ptr<mark> *at = i.at ? &marks[i.at.get()] : nullptr;

		if (at && !*at)
			*at = std::make_shared<mark>();
		if (at)
			i.at = *at;
		cudasim_queue(streams[(size_t)k.branch], i);
	}
	for (size_t b = 1; b < streams.size(); b++) {
		queue_mark(streams[b], false, ends[b]);
		end_stream(streams[b]);
		queue_mark(stream, true, ends[b]);
	}
	return cudaSuccess;
}
