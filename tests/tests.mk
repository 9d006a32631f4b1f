# tests.mk - how tests, simulated GPUs and benchmarks are built and run; the Makefile includes it.

# Flags of the simulator ------------------------------------------------------------------------
# The simulator has the sanitizers of the build, or those that check-memory and check-races name: with the address sanitizer it takes
# twice the time to compile and to run.
SIM_SANITIZE ?= $(filter-out thread,$(SANITIZE))
# UBSan's checks of null pointers and object sizes are left out: without them kernels run 1.7 times as
# fast. A null pointer still faults, and ASan's red zones catch most accesses outside an object. vptr
# has nothing to check: there are no virtual functions.
SIM_SAN   := $(if $(SIM_SANITIZE),-fsanitize=$(SIM_SANITIZE) -fno-sanitize=null$(comma)object-size$(comma)vptr \
             -fno-sanitize-recover=all -fno-omit-frame-pointer)
SIM_CPP   := -I. -isystem tests/cudasim/include -D_GNU_SOURCE -DGT_CUDA_OLDEST_GPU=70
SIM_WARN  := -Wall -Wextra $(WERROR) -Wshadow -Wpointer-arith
# -g1 is enough for the reports of sanitizers, and takes a quarter less time than -g; -O1 takes half the time of -O2.
SIM_CXX    = -std=c++17 -O1 $(if $(filter -g%,$(OPT)),-g1) $(SIM_WARN) $(SIM_CPP)

# Sources ---------------------------------------------------------------------------------------
UNIT_SRC := $(wildcard tests/unit/test_*.c)
ORACLE_SRC := $(wildcard tests/oracle/*.c)
BENCH_SRC := $(wildcard tests/bench/*.c)
ZOO_SRC := $(wildcard tests/zoo/*.c)
SHARED_SRC := $(wildcard tests/common/*.c tests/fake/far/*.c)
FAKE_SRC := $(wildcard tests/fake/nvml.c)
FAKE_CUDA_SRC := $(wildcard tests/fake/cuda.c)
SIM_SRC  := $(wildcard tests/cudasim/*.cc tests/cudasim/*.cu) tests/cudasim/backends.c $(CUDA_SRC)
# Tables of tests/unit/ that run on simulated GPUs, too: those of kernels, and those that say so.
SIM_TABLES := $(patsubst tests/unit/%.c,%,$(sort $(wildcard tests/unit/test_kernels_*.c) \
              $(shell grep -l '^/\* This table runs on GPUs, too\. ' tests/unit/test_*.c)))
SIM_TEST_SRC := $(wildcard tests/cudasim/test_*.c)

SHARED_OBJ := $(SHARED_SRC:%.c=$(BUILD)/obj/%.o)
TEST_OBJ := $(UNIT_SRC:%.c=$(BUILD)/obj/%.o) $(ORACLE_SRC:%.c=$(BUILD)/obj/%.o) $(SHARED_OBJ)
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/tests/%)
BENCH_BIN := $(BENCH_SRC:tests/bench/%.c=$(BUILD)/tests/bench_%)
ORACLE_BIN := $(ORACLE_SRC:tests/oracle/%.c=$(BUILD)/tests/%)
ZOO_BIN := $(ZOO_SRC:tests/zoo/%.c=$(BUILD)/tests/%)
FAKE_SO  := $(FAKE_SRC:tests/fake/nvml.c=$(BUILD)/tests/fake/libnvidia-ml.so.1)
FAKE_OLD_SO := $(FAKE_SO:%.so.1=%-old.so.1)
FAKE_CUDA_SO := $(FAKE_CUDA_SRC:tests/fake/cuda.c=$(BUILD)/tests/fake/libcuda.so.1)
GTRAIN_FAR := $(BUILD)/tests/gtrain-far
SIM_OBJ  := $(patsubst %,$(BUILD)/obj/cudasim/%.o,$(SIM_SRC))
SIM_TEST_OBJ := $(patsubst %,$(BUILD)/obj/cudasim/%.o,$(SIM_TEST_SRC))
SIM_BIN  := $(SIM_TEST_SRC:tests/cudasim/%.c=$(BUILD)/tests/cudasim/%)
SIM_TABLE_BIN := $(SIM_TABLES:%=$(BUILD)/tests/cudasim/%)
# The same tables on the GPUs of this machine; and the program itself on simulated ones.
GPU_BACKENDS := $(BUILD)/obj/tests/cudasim/backends.o
GPU_TABLE_BIN := $(SIM_TABLES:%=$(BUILD)/tests/gpu/%)
# For the race checker: the first stands in for cuBLASLt. The second is empty, so it cannot be opened, and
# convolutions use kernels of gtrain.
GPU_SO := $(addprefix $(BUILD)/tests/gpu/,libcublasLt.so.13 libcudnn.so.9)
GTRAIN_SIM := $(BUILD)/tests/cudasim/gtrain-sim
# Stand in for NVIDIA's; programs of the simulator look beside themselves first.
SIM_LT_SO := $(BUILD)/tests/cudasim/libcublasLt.so.13
SIM_NCCL_SO := $(BUILD)/tests/cudasim/libnccl.so.2
SIM_CUDNN_SO := $(BUILD)/tests/cudasim/libcudnn.so.9
SIM_NVRTC_SO := $(BUILD)/tests/cudasim/libnvrtc.so.13
SIM_SO := $(SIM_LT_SO) $(SIM_NCCL_SO) $(SIM_CUDNN_SO) $(SIM_NVRTC_SO)
# The command by which the simulator's NVRTC compiles a kernel in any folder. Without -fno-builtin, functions of numbers that are
# known would be computed by the compiler, with other bits.
SIM_NVRTC_CXX := $(CXX) -std=c++17 -O1 -w -fno-builtin -fPIC -shared -I$(CURDIR) -isystem $(CURDIR)/tests/cudasim/include \
                 -D_GNU_SOURCE -include kernels/cuda/core/gpu.cuh
# With -no-pie a program need not relocate 400,000 pointers of UBSan's each time it starts.
SIM_LINK := -rdynamic $(if $(SANITIZE),,-no-pie) -Wl,--disable-new-dtags,-rpath
SIM_PATH := $$ORIGIN
PRELOAD_SO := $(addprefix $(BUILD)/tests/fake/,count_allocations.so fail_call.so fast_clock.so slow_lock.so)

# Building --------------------------------------------------------------------------------------
# Tests replace functions of the C library, which shared libraries are to call, too, and sanitizers ask some for options.
# private: the stamp of the flags, on which they depend, is that of the product.
$(TEST_OBJ) $(SIM_TEST_OBJ): private GT_CFLAGS += -fvisibility=default
# Tests run for less time than -O3 takes to compile them. The code that they share computes much, and keeps -O3.
$(filter-out $(SHARED_OBJ),$(TEST_OBJ)): private GT_CFLAGS += -O1

# What test programs share: an archive, so that each takes only what it uses.
$(BUILD)/libshared.a: $(SHARED_OBJ) $(BUILD)/sources
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $(SHARED_OBJ)

# The shared archive has a list of backends without CUDA: kernels for GPUs would make programs four times as large, and
# tests of kernels on GPUs are programs of their own ($(GPU_TABLE_BIN)).
$(UNIT_BIN): $(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/libshared.a $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -Wl,--undefined=gt_backends -o $@ $^ -lcmocka $(GT_LIBS)

$(ORACLE_BIN): $(BUILD)/tests/%: $(BUILD)/obj/tests/oracle/%.o $(BUILD)/libshared.a $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -o $@ $^ $(GT_LIBS)

$(ZOO_BIN): $(BUILD)/tests/%: $(BUILD)/obj/tests/zoo/%.o $(BUILD)/libshared.a $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -o $@ $^ $(GT_LIBS)

# The program itself, with one device more: the shared archive has another list of backends.
$(GTRAIN_FAR): $(CMD_OBJ) $(BUILD)/libshared.a $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -Wl,--undefined=gt_backends -o $@ $^ $(GT_LIBS)

$(GTRAIN_SIM): $(CMD_OBJ) $(SIM_OBJ) $(BUILD)/libshared.a $(BUILD)/libgtrain.a | $(SIM_SO)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(GT_LDFLAGS) $(SIM_SAN) $(SIM_LINK),'$(SIM_PATH)' -o $@ $(filter %.o,$^) $(filter %.a,$^) $(GT_LIBS)

$(GPU_TABLE_BIN): $(BUILD)/tests/gpu/%: $(BUILD)/obj/tests/unit/%.o $(GPU_BACKENDS) $(BUILD)/libshared.a $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -o $@ $^ -lcmocka $(GT_LIBS)

$(BUILD)/tests/gpu/libcudnn.so.9:
	@mkdir -p $(@D)
	$(call say,TEXT,$@): >$@

$(BUILD)/tests/gpu/libcublasLt.so.13: tests/gpu/cublaslt.cu tests/common/cublaslt.inc kernels/cuda/library/cublaslt.h $(BUILD)/cuda
	@mkdir -p $(@D)
	$(call say,NVCC,$@)$(NVCC) $(NVCC_FLAGS) -Xcompiler -fPIC -shared -Xlinker -soname=$(@F) -o $@ $<

# Some measure oneDNN itself.
$(BENCH_BIN): $(BUILD)/tests/bench_%: $(BUILD)/obj/tests/bench/%.o $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -o $@ $^ -ldnnl $(GT_LIBS)

# Pretend driver libraries, for tests of what is opened at run time: one as of today, and one with
# the few functions of the oldest.
$(FAKE_OLD_SO): FAKE_CPP := -DFAKE_NVML_OLD
$(FAKE_SO) $(FAKE_OLD_SO): FAKE_NAME := libnvidia-ml.so.1
$(FAKE_CUDA_SO): FAKE_NAME := libcuda.so.1
$(FAKE_SO) $(FAKE_OLD_SO): $(FAKE_SRC)
$(FAKE_CUDA_SO): $(FAKE_CUDA_SRC)
$(FAKE_SO) $(FAKE_OLD_SO) $(FAKE_CUDA_SO): $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(GT_CPP) $(FAKE_CPP) -std=gnu11 $(GT_WARN) -O1 -g -fPIC -shared \
	    -Wl,-soname,$(FAKE_NAME) -o $@ $(filter %.c,$^)

# Preloaded by tests.
$(PRELOAD_SO): $(BUILD)/tests/fake/%.so: tests/fake/%.c tests/common/interpose.inc $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) -I. -std=gnu11 $(GT_WARN) -O1 -g -fPIC -shared -o $@ $<

# The simulator's own switches of stacks are none of the sanitizers' business. private: else make
# passes the empty value on to the stamp $(BUILD)/cudasim, on which this file depends.
$(BUILD)/obj/cudasim/tests/cudasim/block.cc.o: private SIM_SAN :=
$(BUILD)/obj/cudasim/%.c.o: %.c $(BUILD)/cudasim
	@mkdir -p $(@D)
	$(call say,SIM,$<)$(CC) $(SIM_CPP) $(GT_CPP) $(GT_CFLAGS) $(SIM_SAN) -MMD -MP -c -o $@ $<

$(BUILD)/obj/cudasim/%.o: % $(BUILD)/cudasim
	@mkdir -p $(@D)
	$(call say,SIM,$<)$(CXX) $(SIM_CXX) $(SIM_SAN) -MMD -MP -x c++ -c -o $@ $<

$(SIM_BIN): $(BUILD)/tests/cudasim/%: $(BUILD)/obj/cudasim/tests/cudasim/%.c.o
$(SIM_TABLE_BIN): $(BUILD)/tests/cudasim/%: $(BUILD)/obj/tests/unit/%.o
$(SIM_BIN) $(SIM_TABLE_BIN): $(SIM_OBJ) $(BUILD)/libshared.a $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(GT_LDFLAGS) $(SIM_SAN) $(SIM_LINK),'$(SIM_PATH)' -o $@ $(filter %.o,$^) $(filter %.a,$^) -lcmocka $(GT_LIBS)

# These take the machine's own libraries.
$(addprefix $(BUILD)/tests/cudasim/,test_cudnn_real test_nvrtc_real): SIM_PATH := $$ORIGIN/none
$(SIM_BIN) $(SIM_TABLE_BIN): | $(SIM_SO)
$(SIM_LT_SO): tests/cudasim/lib/cublaslt.cc tests/common/cublaslt.inc kernels/cuda/library/cublaslt.h
$(SIM_NCCL_SO): $(addprefix tests/cudasim/lib/nccl,.cc _ranks.cc _sums.cc _ranks.h) kernels/cuda/nccl/api.h
$(SIM_CUDNN_SO): tests/cudasim/lib/cudnn.cc kernels/cuda/cudnn/api.h
$(SIM_NVRTC_SO): tests/cudasim/lib/nvrtc.cc
$(SIM_NVRTC_SO): private SIM_CXX += -DCUDASIM_CXX='"$(SIM_NVRTC_CXX)"'
$(SIM_SO): tests/cudasim/inside.h tests/cudasim/cudasim.h $(BUILD)/cudasim
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(SIM_CXX) $(SIM_SAN) -fPIC -shared -Wl,-soname,$(@F) -o $@ $(filter %.cc,$^)

$(BUILD)/cudasim: FORCE
	@$(call stamp,$(CXX) $(SIM_CXX) $(SIM_SAN) $(CC) $(GT_CPP) $(GT_CFLAGS))

# Testing ---------------------------------------------------------------------------------------
T       ?=
REQUIRE ?=
# Tests wait for clocks, for the disk and for each other. Two files more than processors keep all processors busy.
TEST_JOBS = $(shell expr $(JOBS) + 2)
RUN_TESTS = BUILD='$(BUILD)' T='$(T)' REQUIRE='$(REQUIRE)' SANITIZE='$(SANITIZE)' PYTHON='$(PYTHON)' \
            JOBS='$(TEST_JOBS)' $(if $(THOROUGH),THOROUGH=1) CC='$(CC)' LINT_FLAGS='$(subst ','\'',$(GT_CPP) $(GT_CFLAGS))'

# What tests need is installed while the product is compiled, which needs none of it.
check: deps   ## run every test; T=shm only those so named; REQUIRE=torch,data,cuda forbids skips
	$(AGAIN) deps-test all
	$(AGAIN) check-run

check-run: all tests
	@$(RUN_TESTS) tests/run

check-thorough:   ## the same with every row of long tables, of which check takes a part
	+@$(MAKE) --no-print-directory THOROUGH=1 check

tests: $(UNIT_BIN) $(BENCH_BIN) $(SIM_BIN) $(SIM_TABLE_BIN) $(GTRAIN_SIM) $(ORACLE_BIN) $(FUZZ_REPLAY) $(GTRAIN_FAR) $(FAKE_SO) $(FAKE_OLD_SO) $(FAKE_CUDA_SO) $(PRELOAD_SO)   ## build the test programs

ROUNDS ?= 100

check-chaos: all   ## kill, stop and slow ranks at random while they train, ROUNDS=100 times
	GTRAIN=$(BUILD)/gtrain $(PYTHON) tests/chaos/chaos.py $(ROUNDS) $(SEED)

check-save-kills: all   ## kill runs at random while they save, KILLS=1000 times
	GTRAIN=$(BUILD)/gtrain KILLS=$(or $(KILLS),1000) $(PYTHON) tests/oracle/save_kill.py

# In a copy of the tree, into which each edit of tests/pitfalls/edits.txt is made.
check-pitfalls: all tests   ## take away each answer of gtrain-pitfalls(7): its test must fail (half an hour); T=ranks some
	+@$(PYTHON) tests/pitfalls/run.py --build '$(BUILD)' --only '$(T)'

check-chaos-hosts: all   ## kill, stop and cut off hosts at MOMENTS=200 random moments
	GTRAIN=$(BUILD)/gtrain $(PYTHON) tests/chaos/hosts.py $(MOMENTS) $(SEED)

# The program with sanitizers reads what is damaged; that without makes files, is killed, and meets failing calls.
HOSTILE_SAN := address,undefined
HOSTILE_DIR := build/$(subst $(comma),-,$(HOSTILE_SAN))

check-hostile: all tests   ## run campaigns of damaged files, failing calls, kills, races: TIME=1800 SEED=n JOBS=2 T=faults
	+@$(MAKE) --no-print-directory SANITIZE=$(HOSTILE_SAN) BUILD=$(HOSTILE_DIR) all
	$(PYTHON) tests/hostile/run.py --gtrain $(HOSTILE_DIR)/gtrain --plain $(BUILD)/gtrain --tests $(BUILD)/tests \
	    --time $(TIME) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(if $(T),--only $(T))

# Kernels alone have the thread sanitizer. gcc's OpenMP has a single thread, see above. Ranks that are
# processes start threads after a fork, which the sanitizer refuses by default.
check-races: SIM_CHECK = BUILD=build/races SIM_SANITIZE=thread OMP_NUM_THREADS=1 TSAN_OPTIONS=die_after_fork=0
check-races: deps-test   ## run kernels on simulated GPUs under the thread sanitizer, for races within and between blocks (slow)

check-memory: SIM_CHECK = BUILD=build/memory SIM_SANITIZE=address,undefined
check-memory: deps-test   ## run kernels on simulated GPUs under the sanitizers of addresses and undefined behaviour (slow)

check-races check-memory:
	+@$(MAKE) --no-print-directory $(SIM_CHECK) CUDA=0 $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS)) check-simulated

check-simulated: $(SIM_BIN) $(SIM_TABLE_BIN) $(GTRAIN_SIM)
	@TIMEOUT=3600 $(RUN_TESTS) THOROUGH=1 tests/run cudasim

# Nothing is installed for it: a machine with a GPU often has no network. Without a GPU it says so.
check-gpu:   ## run tables, models, training and benchmarks on this machine's GPU, and the toolkit's checkers; PEERS=file.json
	+@$(MAKE) --no-print-directory CUDA=1 $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS)) check-gpu-run

check-gpu-run: all $(GPU_TABLE_BIN) $(GPU_SO) $(ORACLE_BIN)
	@TIMEOUT=600 $(RUN_TESTS) THOROUGH=1 tests/run gpu
	@! $(BUILD)/gtrain probe --json | grep -q '"available": true' || \
	    GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/bench/gpu.py $(if $(PEERS),--peers '$(PEERS)')

# In chroots, which build there: this tree's build has no part in it.
check-systems:   ## demo and check in fresh chroots of Debian 12 and 13 and Ubuntu 24.04, and a build with oneDNN 3.1 (root, slow): SYSTEM=trixie one of them
	@SYSTEMS='$(or $(SYSTEMS),$(BUILD)/systems)' MIRROR='$(MIRROR)' UBUNTU_MIRROR='$(UBUNTU_MIRROR)' JOBS='$(JOBS)' T='$(T)' \
	    REQUIRE='$(REQUIRE)' PYTHON='$(PYTHON)' tests/systems/run $(SYSTEM)

check-curves: all   ## compare loss curves of all models, parallel modes and ranks with one rank's; T=zero3 some
	GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/curves/curves.py '$(T)'

check-cifar10: all   ## train ResNet-20 on the JPEGs of CIFAR-10 beside PyTorch, 5 epochs, 3 seeds (an hour or two)
	GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/curves/cifar10.py --results '$(BUILD)/cifar10.json'

# PyTorch of PyPI exports the networks; Debian's is too old for that. Nothing is installed.
ZOO_NEEDS_PYTHON := [ -n '$(ZOO_PYTHON)' ] || { echo 'check-zoo: ZOO_PYTHON must name a python with torch >= 2.9, torchvision, timm and transformers' >&2; exit 1; }
ZOO_MODES = --folder '$(BUILD)/zoo/modes' $(if $(Z),--only '$(Z)') $(if $(MODE),--mode '$(MODE)')

check-zoo: $(ZOO_BIN)   ## train networks of torchvision, timm, transformers beside PyTorch: ZOO_PYTHON=FILE Z=resnet18 COMPILE=1 FRESH=1
	@$(ZOO_NEEDS_PYTHON)
	@'$(ZOO_PYTHON)' tests/zoo/zoo.py --run '$(BUILD)/tests/network_run' --folder '$(BUILD)/zoo' $(if $(Z),--only '$(Z)') \
	    $(if $(COMPILE),--compile) $(if $(FRESH),--fresh)

check-zoo-joint: $(ZOO_BIN)   ## compare gradients of the zoo's networks with torch's joint graphs: ZOO_PYTHON=FILE Z=gpt2
	@$(ZOO_NEEDS_PYTHON)
	@'$(ZOO_PYTHON)' tests/zoo/joint.py --run '$(BUILD)/tests/network_run' --folder '$(BUILD)/zoo' $(if $(Z),--only '$(Z)')

check-zoo-user: $(BUILD)/gtrain   ## take modules of a user from export to trained files, by the manual: ZOO_PYTHON=FILE
	@$(ZOO_NEEDS_PYTHON)
	@'$(ZOO_PYTHON)' tests/zoo/user.py --gtrain '$(BUILD)/gtrain'

check-executorch: $(BUILD)/gtrain $(BUILD)/tests/sampler_dump   ## train ExecuTorch's example for CIFAR-10 beside PyTorch: ZOO_PYTHON=FILE
	@$(ZOO_NEEDS_PYTHON)
	@'$(ZOO_PYTHON)' tests/zoo/executorch.py --gtrain '$(BUILD)/gtrain' --tests '$(BUILD)/tests'

# onnxruntime and onnx are not in Debian. Nothing is installed.
check-onnx: $(BUILD)/gtrain $(BUILD)/tests/forward_dump   ## run models of ONNX in onnxruntime: ZOO_PYTHON=FILE Z=resnet18
	@[ -n '$(ZOO_PYTHON)' ] || { echo 'check-onnx: ZOO_PYTHON must name a python with torch, onnx and onnxruntime' >&2; exit 1; }
	@'$(ZOO_PYTHON)' tests/zoo/onnx_zoo.py --gtrain '$(BUILD)/gtrain' --dump '$(BUILD)/tests/forward_dump' $(if $(Z),--only '$(Z)')

check-onnx-train: $(BUILD)/gtrain $(ZOO_BIN)   ## train networks that PyTorch exported to ONNX beside PyTorch: ZOO_PYTHON=FILE Z=resnet18
	@[ -n '$(ZOO_PYTHON)' ] || { echo 'check-onnx-train: ZOO_PYTHON must name a python with torch, torchvision, onnx and onnxscript' >&2; exit 1; }
	@'$(ZOO_PYTHON)' tests/zoo/onnx_train.py --gtrain '$(BUILD)/gtrain' --run '$(BUILD)/tests/network_run' $(if $(Z),--only '$(Z)')

# TensorBoard is not in Debian. Nothing is installed.
check-tensorboard: $(BUILD)/gtrain   ## let TensorBoard read runs of train --tensorboard: TENSORBOARD_PYTHON=FILE
	@[ -n '$(TENSORBOARD_PYTHON)' ] || { echo 'check-tensorboard: TENSORBOARD_PYTHON must name a python with tensorboard' >&2; exit 1; }
	@'$(TENSORBOARD_PYTHON)' tests/tensorboard/check.py --gtrain '$(BUILD)/gtrain' $(if $(KEEP),--keep '$(KEEP)')

check-zoo-modes: $(BUILD)/gtrain   ## small networks of the zoo in every mode beside one rank, and back in PyTorch: ZOO_PYTHON=FILE Z=gpt2 MODE=zero3
	@$(ZOO_NEEDS_PYTHON)
	@'$(ZOO_PYTHON)' tests/zoo/modes.py --gtrain '$(BUILD)/gtrain' $(ZOO_MODES)

check-zoo-simulated: $(GTRAIN_SIM)   ## the same on simulated GPUs, fewer modes
	@$(ZOO_NEEDS_PYTHON)
	@'$(ZOO_PYTHON)' tests/zoo/modes.py --gtrain '$(GTRAIN_SIM)' --simulated $(ZOO_MODES)

check-valgrind: deps-test   ## run the unit tests under valgrind
	@sh .ci/deps valgrind
	$(AGAIN) check-valgrind-run

# valgrind emulates fused multiply-add, number by number: oneDNN is to do without.
check-valgrind-run: tests
	@$(RUN_TESTS) TIMEOUT=600 ONEDNN_MAX_CPU_ISA=AVX \
	    WRAP='valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
	    --suppressions=tests/lint/valgrind.supp' tests/run unit

lint: $(BUILD)/libgtrain.a   ## check style, layers, names, scripts and man pages
	@$(RUN_TESTS) tests/run lint

tidy: $(BUILD)/flags   ## run clang-tidy
	clang-tidy --quiet $(LIB_SRC) $(CMD_SRC) $(UNIT_SRC) -- $(GT_CPP) -std=gnu11

check-models: all tests   ## compare the large models' loss curves with PyTorch's too, and fit one into 4 GiB (slow)
	GTRAIN_TESTS='$(BUILD)/tests' OPENBLAS_CORETYPE=SKYLAKEX MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1 \
	    $(PYTHON) tests/oracle/models.py --large
	GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/oracle/recompute.py --large

bench: all $(BENCH_BIN)   ## measure speed beside PyTorch's; BENCH='--quick --check' are its options
	@GTRAIN='$(BUILD)/gtrain' GTRAIN_TESTS='$(BUILD)/tests' $(PYTHON) tests/bench/bench.py $(BENCH)

bench-ckpt: all   ## time operations on a 4 GiB checkpoint beside cp and PyTorch (BENCH='--check')
	@GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/bench/ckpt.py $(BENCH)

bench-map: $(BUILD)/tests/bench_map   ## time expressions on a GPU, interpreted and compiled: DEVICE=cuda:0
	@$(BUILD)/tests/bench_map $(or $(DEVICE),cuda:0)

bench-allreduce: all   ## time the sum over ranks beside Open MPI and gloo (BENCH='--check')
	@GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/bench/allreduce.py $(BENCH)

bench-generate: all $(BENCH_BIN)   ## time gpt2's tokens beside PyTorch with a key-value cache (BENCH='--check')
	@GTRAIN='$(BUILD)/gtrain' GTRAIN_TESTS='$(BUILD)/tests' $(PYTHON) tests/bench/generate.py $(BENCH)

bench-loader: all $(BENCH_BIN)   ## time the loader of images beside PyTorch's and libjpeg-turbo (BENCH='--check')
	@GTRAIN_TESTS='$(BUILD)/tests' $(PYTHON) tests/bench/loader.py $(BENCH)

bench-observers: all   ## find what observers of a run cost, as a share of its steps (BENCH='--check')
	@GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/bench/observers.py $(BENCH)

bench-plan: all   ## compare the plan's memory and step time with runs in each mode (BENCH='--check')
	@GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/bench/plan.py $(BENCH)

bench-ranks: all   ## time steps of two ranks beside those of one (BENCH='--check')
	@GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/bench/ranks.py $(BENCH)

bench-tokenize: all $(BENCH_BIN)   ## time tokenizers on one core and on all (BENCH='--check')
	@GTRAIN_TESTS='$(BUILD)/tests' $(PYTHON) tests/bench/tokenizers.py $(BENCH)

.PHONY: bench bench-allreduce bench-ckpt bench-generate bench-loader bench-observers bench-plan bench-ranks bench-tokenize \
        check check-chaos check-chaos-hosts check-cifar10 check-curves check-executorch check-gpu check-gpu-run check-hostile \
        check-memory check-models check-onnx check-onnx-train check-pitfalls check-races check-run check-save-kills check-simulated check-systems check-tensorboard check-thorough check-valgrind \
        check-valgrind-run check-zoo check-zoo-joint check-zoo-modes check-zoo-simulated \
        check-zoo-user lint tests tidy
-include $(patsubst %.o,%.d,$(TEST_OBJ) $(BENCH_SRC:%.c=$(BUILD)/obj/%.o) $(ZOO_SRC:%.c=$(BUILD)/obj/%.o) $(SIM_OBJ) $(SIM_TEST_OBJ))
