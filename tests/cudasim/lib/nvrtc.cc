/* nvrtc.cc - stands in for NVRTC: the simulator's compiler makes a shared object of a source. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

#include "tests/cudasim/inside.h"

/*
 * A library of its own, which gtrain opens as it opens the real one. The source is compiled with
 * the simulator's headers and with gpu.cuh, whose 16-bit types a GPU's compiler finds in the
 * source. As the real one, it refuses options that it does not know. It also refuses a source that
 * would be contracted to multiply-adds. CUDASIM_CXX is the command of the compiler.
 */

enum { INVALID_OPTION = 5, COMPILATION = 6, INTERNAL_ERROR = 11 };

struct program {
	std::string source, name, log, image;
};

/* This reads the arguments of a launch, each of its parameter's type. */
static const char launcher[] = R"(
#include <utility>
template <class... P, size_t... I>
static void launch_all(void (*kernel)(P...), dim3 grid, dim3 block, size_t bytes,
    cudaStream_t stream, void **arguments, std::index_sequence<I...>)
{
	cudasim_launch_with(kernel, grid, block, bytes, stream, *(P *)arguments[I]...);
}

template <class... P>
static void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t bytes,
    cudaStream_t stream, void **arguments)
{
	launch_all(kernel, grid, block, bytes, stream, arguments,
	    std::make_index_sequence<sizeof...(P)>());
}
)";

static std::string wrapper_of(const std::string &name)
{
	return std::string(launcher) + "extern \"C\" void cudasim_" + name +
	       "(dim3 grid, dim3 block, size_t bytes, cudaStream_t stream, void **arguments)\n"
	       "{\n\tlaunch(" +
	       name + ", grid, block, bytes, stream, arguments);\n}\n";
}

static std::string read_file(const std::string &path)
{
	std::ifstream f(path, std::ios::binary);

	return std::string(std::istreambuf_iterator<char>(f), std::istreambuf_iterator<char>());
}

/* Multiply by twice a product, if a test asks for wrong results. */
static void plant_error(std::string &source)
{
	static const char right[] = "return a * b;";
	size_t at = source.find(right);

	if (cudasim_nvrtc.wrong && at != std::string::npos)
		source.replace(at, strlen(right), "return 2 * a * b;");
}

static int compile(program *p)
{
	char folder[] = "/tmp/cudasim-nvrtc.XXXXXX";
	std::string source = p->source, path, command, object;
	struct cudasim_image head = { "cudasim", 0 };
	int status;

	if (!mkdtemp(folder))
		return INTERNAL_ERROR;
	path = std::string(folder) + "/kernel";
	plant_error(source);
	std::ofstream(path + ".cc") << source << wrapper_of(p->name);
	command =
	    std::string(CUDASIM_CXX) + " -o " + path + ".so " + path + ".cc 2>" + path + ".log";
	status = system(command.c_str());
	object = read_file(path + ".so");
	p->log = read_file(path + ".log");
	for (const char *suffix : { ".cc", ".so", ".log" })
		unlink((path + suffix).c_str());
	rmdir(folder);
	head.bytes = object.size();
	p->image = std::string((const char *)&head, sizeof(head)) + object;
	return status ? COMPILATION : 0;
}

extern "C" {

int nvrtcVersion(int *major, int *minor)
{
	const char *there = getenv("CUDASIM_NVRTC");

	*major = 13;
	*minor = 0;
	return there && !strcmp(there, "yes") ? 0 : INTERNAL_ERROR;
}

const char *nvrtcGetErrorString(int status)
{
	return status == INVALID_OPTION ? "NVRTC_ERROR_INVALID_OPTION"
	       : status == COMPILATION  ? "NVRTC_ERROR_COMPILATION"
	                                : "NVRTC_ERROR_INTERNAL_ERROR";
}

int nvrtcCreateProgram(void **out, const char *source, const char *name, int headers,
    const char *const *, const char *const *)
{
	if (headers)
		return INTERNAL_ERROR;
	*out = new program{ source, name, "", "" };
	return 0;
}

int nvrtcDestroyProgram(void **p)
{
	delete (program *)*p;
	*p = nullptr;
	return 0;
}

int nvrtcCompileProgram(void *p, int count, const char *const *options)
{
	bool contracted = true, target = false;

	for (int i = 0; i < count; i++) {
		if (!strcmp(options[i], "-fmad=false"))
			contracted = false;
		else if (!strcmp(options[i], "-arch=sm_90"))
			target = true;
		else if (strcmp(options[i], "-std=c++17"))
			return INVALID_OPTION;
	}
	if (contracted || !target)
		return INVALID_OPTION;
	__atomic_fetch_add(&cudasim_nvrtc.compiled, 1, __ATOMIC_RELAXED);
	if (!cudasim_nvrtc.fails)
		return compile((program *)p);
	((program *)p)->log = "kernel(1): warning: planted\nkernel(2): error: planted\n";
	return COMPILATION;
}

int nvrtcGetCUBINSize(void *p, size_t *bytes)
{
	*bytes = ((program *)p)->image.size();
	return 0;
}

int nvrtcGetCUBIN(void *p, char *cubin)
{
	memcpy(cubin, ((program *)p)->image.data(), ((program *)p)->image.size());
	return 0;
}

int nvrtcGetProgramLogSize(void *p, size_t *bytes)
{
	*bytes = ((program *)p)->log.size() + 1;
	return 0;
}

int nvrtcGetProgramLog(void *p, char *log)
{
	memcpy(log, ((program *)p)->log.c_str(), ((program *)p)->log.size() + 1);
	return 0;
}
}
