/* globals.c - which of the globals that a pickle names PyTorch itself would load. */
#include "lib/ckpt/pickle/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The globals that torch.load(weights_only=True) allows by itself, sorted.
 * Source: torch/_weights_only_unpickler.py, _get_allowed_globals(), of PyTorch 1.13, of 2.6, and of
 * its main branch after 2.7 (pytorch/pytorch 00f730b66e58), with the dtypes of torch/storage.py:
 * the union of these lists.
 */
/* clang-format off */
static const char *const allowed[] = {
	"_codecs.encode", "builtins.bytearray", "builtins.complex", "builtins.set",
	"collections.Counter", "collections.OrderedDict", "torch.BFloat16Storage",
	"torch.BFloat16Tensor", "torch.BoolStorage", "torch.BoolTensor", "torch.ByteStorage",
	"torch.ByteTensor", "torch.CharStorage", "torch.CharTensor",
	"torch.ComplexDoubleStorage", "torch.ComplexFloatStorage", "torch.DoubleStorage",
	"torch.DoubleTensor", "torch.FloatStorage", "torch.FloatTensor", "torch.HalfStorage",
	"torch.HalfTensor", "torch.IntStorage", "torch.IntTensor", "torch.LongStorage",
	"torch.LongTensor", "torch.QInt32Storage", "torch.QInt8Storage", "torch.QUInt2x4Storage",
	"torch.QUInt4x2Storage", "torch.QUInt8Storage", "torch.ShortStorage",
	"torch.ShortTensor", "torch.Size", "torch.Tensor", "torch._tensor._rebuild_from_type_v2",
	"torch._utils._rebuild_device_tensor_from_cpu_tensor",
	"torch._utils._rebuild_device_tensor_from_numpy",
	"torch._utils._rebuild_meta_tensor_no_storage", "torch._utils._rebuild_nested_tensor",
	"torch._utils._rebuild_parameter",
	"torch._utils._rebuild_parameter_with_state", "torch._utils._rebuild_qtensor",
	"torch._utils._rebuild_sparse_csr_tensor", "torch._utils._rebuild_sparse_tensor",
	"torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2",
	"torch._utils._rebuild_tensor_v3", "torch._utils._rebuild_wrapper_subclass",
	"torch.bfloat16", "torch.bits16", "torch.bits1x8", "torch.bits2x4", "torch.bits4x2",
	"torch.bits8", "torch.bool", "torch.complex128", "torch.complex32", "torch.complex64",
	"torch.cuda.BFloat16Storage", "torch.cuda.BFloat16Tensor", "torch.cuda.BoolStorage",
	"torch.cuda.BoolTensor", "torch.cuda.ByteStorage", "torch.cuda.ByteTensor",
	"torch.cuda.CharStorage", "torch.cuda.CharTensor", "torch.cuda.ComplexDoubleStorage",
	"torch.cuda.ComplexFloatStorage", "torch.cuda.DoubleStorage", "torch.cuda.DoubleTensor",
	"torch.cuda.FloatStorage", "torch.cuda.FloatTensor", "torch.cuda.HalfStorage",
	"torch.cuda.HalfTensor", "torch.cuda.IntStorage", "torch.cuda.IntTensor",
	"torch.cuda.LongStorage", "torch.cuda.LongTensor", "torch.cuda.ShortStorage",
	"torch.cuda.ShortTensor", "torch.cuda.sparse.BFloat16Tensor",
	"torch.cuda.sparse.ByteTensor", "torch.cuda.sparse.CharTensor",
	"torch.cuda.sparse.DoubleTensor", "torch.cuda.sparse.FloatTensor",
	"torch.cuda.sparse.HalfTensor", "torch.cuda.sparse.IntTensor",
	"torch.cuda.sparse.LongTensor", "torch.cuda.sparse.ShortTensor", "torch.device",
	"torch.float16", "torch.float32", "torch.float4_e2m1fn_x2", "torch.float64",
	"torch.float8_e4m3fn", "torch.float8_e4m3fnuz", "torch.float8_e5m2",
	"torch.float8_e5m2fnuz", "torch.float8_e8m0fnu", "torch.int1", "torch.int16",
	"torch.int2", "torch.int3", "torch.int32", "torch.int4", "torch.int5", "torch.int6",
	"torch.int64", "torch.int7", "torch.int8", "torch.nn.parameter.Parameter",
	"torch.per_channel_affine", "torch.per_channel_affine_float_qparams",
	"torch.per_channel_symmetric", "torch.per_tensor_affine", "torch.per_tensor_symmetric",
	"torch.qint32", "torch.qint8", "torch.quint2x4", "torch.quint4x2", "torch.quint8",
	"torch.serialization._get_layout", "torch.sparse.BFloat16Tensor",
	"torch.sparse.ByteTensor", "torch.sparse.CharTensor", "torch.sparse.DoubleTensor",
	"torch.sparse.FloatTensor", "torch.sparse.HalfTensor", "torch.sparse.IntTensor",
	"torch.sparse.LongTensor", "torch.sparse.ShortTensor", "torch.storage.TypedStorage",
	"torch.storage.UntypedStorage", "torch.uint1", "torch.uint16", "torch.uint2",
	"torch.uint3", "torch.uint32", "torch.uint4", "torch.uint5", "torch.uint6",
	"torch.uint64", "torch.uint7", "torch.uint8",
};

/*
 * Modules, and single names in modules that are harmless otherwise. The first are those that
 * PyTorch never loads, whichever globals a caller allows (_blocklisted_modules, same source). An
 * entry that ends with a dot stands for a module and all below it.
 */
static const char *const dangerous[] = {
	"sys.", "os.", "posix.", "nt.",
	"subprocess.", "_posixsubprocess.", "commands.", "popen2.", "pty.", "platform.popen",
	"shutil.", "socket.", "_socket.", "ssl.", "http.", "urllib.", "requests.", "httplib.",
	"urllib2.", "ftplib.", "smtplib.", "telnetlib.", "webbrowser.", "asyncio.", "aiohttp.",
	"ctypes.", "_ctypes.", "importlib.", "imp.", "runpy.", "pkgutil.", "zipimport.", "code.",
	"codeop.", "pip.", "setuptools.", "ensurepip.", "venv.", "distutils.", "timeit.", "trace.",
	"profile.", "cProfile.", "pdb.", "bdb.", "doctest.", "idlelib.", "multiprocessing.",
	"signal.", "tempfile.", "io.", "_io.", "fileinput.", "glob.",
	"pickle.", "_pickle.", "cPickle.", "dill.", "cloudpickle.", "joblib.", "marshal.", "shelve.",
	"inspect.", "gc.", "atexit.", "_thread.", "thread.", "logging.config.",
	"logging.FileHandler", "logging.handlers.", "pydoc.", "_pyrepl.", "_aix_support.", "_osx_support.",
	"imaplib.", "poplib.", "nntplib.", "xmlrpc.", "test.", "uuid._get_command_stdout",
	"types.CodeType", "types.FunctionType",
	"builtins.eval", "builtins.exec", "builtins.execfile", "builtins.compile",
	"builtins.__import__", "builtins.open", "builtins.file", "builtins.input",
	"builtins.getattr", "builtins.setattr", "builtins.delattr", "builtins.globals",
	"builtins.locals", "builtins.vars", "builtins.breakpoint", "builtins.apply",
	"builtins.memoryview", "builtins.type", "builtins.map", "builtins.filter",
	"operator.attrgetter", "operator.methodcaller", "operator.itemgetter", "operator.call",
	"_operator.attrgetter", "_operator.methodcaller", "_operator.itemgetter", "_operator.call",
	"functools.partial", "functools.reduce", "_functools.partial", "_functools.reduce",
	"numpy.testing._private.utils.runstring", "numpy.f2py.", "numpy.load",
	"torch.load", "torch.serialization.load", "torch.storage._load_from_bytes", "torch.hub.",
	"torch.jit.load", "torch.utils.cpp_extension.", "torch.distributed.rpc.",
	"torch.utils.collect_env.", "torch._inductor.", "torch.utils._config_module.",
	"torch.utils.bottleneck.", "torch._dynamo.guards.", "torch.utils.data.datapipes.utils.decoder.",
	"torch.jit.unsupported_tensor_ops.", "torch.jit._script.unpackage_script_module",
	"torch.fx.experimental.", "nturl2path.", "lib2to3.", "ptyprocess.",
	"pandas.read_pickle", "pandas.io.pickle.",
};
/* clang-format on */

/*
 * The classes in the metadata of distributed checkpoints. The modules are those of PyTorch 1.13 and
 * of 2.x. A path that a caller gave as an object is in storage_meta.
 * Source: torch/distributed/checkpoint/metadata.py and filesystem.py.
 */
static const char *const dcp_modules[] = {
	"torch.distributed.checkpoint.metadata.",
	"torch.distributed.checkpoint.filesystem.",
	"torch.distributed._shard.checkpoint.metadata.",
	"torch.distributed._shard.checkpoint.filesystem.",
	"torch.distributed._shard.sharded_tensor.metadata.",
	"pathlib.",
	"pathlib._local.",
};

static const char *const dcp_classes[] = {
	"Metadata",
	"MetadataIndex",
	"TensorStorageMetadata",
	"BytesStorageMetadata",
	"ChunkStorageMetadata",
	"TensorProperties",
	"StorageMeta",
	"_StorageInfo",
	"_MEM_FORMAT_ENCODING",
	"MEM_FORMAT_ENCODING",
	"PosixPath",
	"PurePosixPath",
	"WindowsPath",
	"PureWindowsPath",
};

static int compare_global_names(const void *key, const void *entry)
{
	return strcmp(key, *(const char *const *)entry);
}

/* PyTorch takes names of Python 2 for those of 3, as pickle does: Lib/_compat_pickle.py. */
static const char *modern(const char *name, char *buffer, size_t size)
{
	static const char *const renamed[][2] = {
		{ "__builtin__.", "builtins." },
		{ "copy_reg.", "copyreg." },
		{ "UserDict.", "collections." },
	};

	for (size_t i = 0; i < sizeof(renamed) / sizeof(*renamed); i++) {
		size_t n = strlen(renamed[i][0]);

		if (strncmp(name, renamed[i][0], n))
			continue;
		snprintf(buffer, size, "%s%s", renamed[i][1], name + n);
		return buffer;
	}
	return name;
}

enum gt_global_verdict gt_global_classify(const char *name)
{
	/* At most 2 * GT_PICKLE_NAME_BYTES, and the bytes by which "collections" is longer. */
	char buffer[1100];

	name = modern(name, buffer, sizeof(buffer));
	if (bsearch(name, allowed, sizeof(allowed) / sizeof(*allowed), sizeof(*allowed),
	        compare_global_names))
		return GT_GLOBAL_ALLOWED;
	for (size_t i = 0; i < sizeof(dangerous) / sizeof(*dangerous); i++) {
		size_t n = strlen(dangerous[i]);

		if (dangerous[i][n - 1] == '.' ? !strncmp(name, dangerous[i], n)
		                               : !strcmp(name, dangerous[i]))
			return GT_GLOBAL_DANGEROUS;
	}
	return GT_GLOBAL_UNLISTED;
}

bool gt_global_is_of_dcp(const char *name)
{
	for (size_t i = 0; i < sizeof(dcp_modules) / sizeof(*dcp_modules); i++) {
		size_t n = strlen(dcp_modules[i]);

		for (size_t k = 0; k < sizeof(dcp_classes) / sizeof(*dcp_classes); k++)
			if (!strncmp(name, dcp_modules[i], n) && !strcmp(name + n, dcp_classes[k]))
				return true;
	}
	return !strcmp(name, "torch.serialization._get_layout") || !strcmp(name, "torch.strided");
}
