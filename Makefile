# gtrain - build, test, install.  `make help` lists the targets; config.mak may set the knobs.

# Knobs ---------------------------------------------------------------------------------------
-include config.mak
PREFIX   ?= /usr/local
DESTDIR  ?=
SANITIZE ?=
OPT      ?= -O3 -g
WERROR   ?= -Werror
CFLAGS   ?=
CPPFLAGS ?=
LDFLAGS  ?=
PYTHON   ?= /usr/bin/python3
JOBS     ?= $(shell nproc 2>/dev/null || echo 1)
comma    := ,
hash     := \#
BUILD    ?= build$(if $(SANITIZE),/$(subst $(comma),-,$(SANITIZE)))

# gcc's OpenMP runtime is not built for the thread sanitizer: with two threads the sanitizer
# reports false races, or hangs. clang's tells the sanitizer of its barriers through libarcher, and stands
# in for gcc's where oneDNN calls that. So SANITIZE=thread means clang, unless CC says otherwise;
# then set OMP_NUM_THREADS=1.
ifeq ($(origin CC),default)
CC := $(if $(findstring thread,$(SANITIZE)),clang,cc)
endif

# The compiler of the simulator of CUDA, of the same family.
ifeq ($(origin CXX),default)
CXX := $(if $(findstring clang,$(CC)),clang++,c++)
endif

# Debian packages; a/b means that either will do ----------------------------------------------
DEPS_BUILD := gcc libc6-dev make pkg-config/pkgconf zlib1g-dev libjansson-dev libpng-dev \
              libjpeg-dev/libjpeg62-turbo-dev/libjpeg-turbo8-dev libdnnl-dev libisal-dev \
              libpcre2-dev nettle-dev libwebp-dev
DEPS_TEST  := g++ libcmocka-dev bats python3-torch libopenblas0 python3-numpy python3-pil jq shellcheck mandoc \
              clang-format clang-tidy fish zsh tmux libopenmpi-dev openmpi-bin iproute2 procps libcurl4/libcurl4t64
DEPS_TSAN  := clang libclang-rt-14-dev/libclang-rt-dev libomp-14-dev/libomp-dev

# Flags ---------------------------------------------------------------------------------------
VERSION  := 0.1.0
PACKAGES := zlib jansson libpng libjpeg libwebp libpcre2-8 nettle
# Taken where it is there; `make ISAL=0` does without.
ISAL     ?= $(shell pkg-config --exists libisal 2>/dev/null && echo 1 || echo 0)
PACKAGES += $(if $(filter 1,$(ISAL)),libisal)
# For ranks on several hosts; the program itself does without. `make MPI=1` insists, MPI=0 leaves it.
# mpicc alone does not say that MPI's headers are installed.
MPI      ?= auto
MPICC    ?= mpicc
WITH_MPI := $(if $(filter auto,$(MPI)),$(shell echo '$(hash)include <mpi.h>' | $(MPICC) -fsyntax-only -x c - >/dev/null 2>&1 && echo 1),$(MPI))
PKG_FLAGS := $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
PKG_LIBS  := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null)

# oneDNN's header names its major version, which chooses kernels/cpu/dnnl_vN.c. The library names the
# file that programs open (its SONAME), which Debian's name of the package follows: libdnnl.so.3.6 is in
# the package libdnnl3.6. The library is opened when the CPU backend needs it (kernels/cpu/dnnl_api.c).
DNNL_MAJOR := $(shell printf '%s\n' '$(hash)include <dnnl.h>' 'gtrain_major DNNL_VERSION_MAJOR' | \
              $(CC) $(CPPFLAGS) -E -P -x c - 2>/dev/null | sed -n 's/^gtrain_major \([0-9]*\)$$/\1/p')
DNNL_LIB   := $(firstword $(wildcard $(patsubst -L%,%/libdnnl.so,$(filter -L%,$(LDFLAGS)))) \
              $(shell $(CC) -print-file-name=libdnnl.so 2>/dev/null))
DNNL_SONAME := $(or $(shell objdump -p $(DNNL_LIB) 2>/dev/null | awk '$$1 == "SONAME" { print $$2 }'),libdnnl.so.$(DNNL_MAJOR))
DNNL_CPP   := -DGT_DNNL_SONAME='"$(DNNL_SONAME)"' -DGT_DNNL_PACKAGE='"$(subst .so.,,$(DNNL_SONAME))"'

SAN_FLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all \
             -fno-omit-frame-pointer)
GT_WARN   := -Wall -Wextra $(WERROR) -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla \
             -Wpointer-arith
GT_CPP    := -I. -D_GNU_SOURCE -DGT_VERSION='"$(VERSION)"' $(PKG_FLAGS) \
             $(if $(filter 1,$(ISAL)),-DGT_WITH_ISAL) $(DNNL_CPP) $(CPPFLAGS)
GT_CFLAGS := -std=gnu11 $(OPT) $(GT_WARN) -fopenmp -fno-math-errno -fno-trapping-math \
             -ffp-contract=off $(SAN_FLAGS) $(CFLAGS)
GT_LDFLAGS := -fopenmp -Wl,--as-needed $(SAN_FLAGS) $(LDFLAGS)
GT_LIBS    = $(CUDA_LIBS) $(PKG_LIBS) -lm -ldl -lpthread

# Kernels for GPUs. `make CUDA=1` insists on a toolkit, CUDA=0 does without.
CUDA      ?= auto
CUDA_ARCH ?= 80 90
NVCC      ?= $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
# Under sanitizers the simulator runs the kernels: nvcc's code is none of their business.
WITH_CUDA := $(if $(filter auto,$(CUDA)),$(if $(NVCC),$(if $(SANITIZE),,1)),$(filter 1,$(CUDA)))
CUDA_HOME = $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
# Machine code for each, and for GPUs to come what their driver compiles.
CUDA_CODE := $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
             -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))
# The run-time is in the binary; the driver's library is opened when a GPU is first asked for.
CUDA_LIBS  = $(if $(WITH_CUDA),-L$(CUDA_HOME)/lib64 -lcudart_static -lsupc++ -lrt)
NVCC_FLAGS = -std=c++17 -O3 -lineinfo $(CUDA_CODE) -Xptxas -warn-spills \
             $(if $(WERROR),-Werror all-warnings -Xptxas -Werror) -ccbin '$(CXX)' \
             -Xcompiler '$(subst $() $(),$(comma),-Wall -Wextra $(WERROR) -Wshadow)' -I. -D_GNU_SOURCE
# The same files for the simulator, with sanitizers in any build: tests run nothing else of them.
SIM_SANITIZE ?= $(if $(SANITIZE),$(filter-out thread,$(SANITIZE)),address,undefined)
# UBSan's checks of null pointers and object sizes are left out: without them kernels run 1.7 times as
# fast. A null pointer still faults, and ASan's red zones catch most accesses outside an object. vptr
# has nothing to check: there are no virtual functions.
SIM_SAN   := $(if $(SIM_SANITIZE),-fsanitize=$(SIM_SANITIZE) -fno-sanitize=null$(comma)object-size$(comma)vptr \
             -fno-sanitize-recover=all -fno-omit-frame-pointer)
SIM_CPP   := -I. -isystem tests/cudasim/include -D_GNU_SOURCE
SIM_WARN  := -Wall -Wextra $(WERROR) -Wshadow -Wpointer-arith
# -g1 is enough for the reports of sanitizers, and takes a quarter less time than -g.
SIM_CXX    = -std=c++17 -O2 -g1 $(SIM_WARN) $(SIM_CPP)

# CPU kernels are compiled once per instruction set; the backend picks a table when it starts, so
# one binary runs everywhere and nothing here needs -march=native.
ifeq ($(shell uname -m),x86_64)
ISAS := base avx2 avx512
else
ISAS := base
endif
ISA_base   :=
ISA_avx2   := -march=x86-64-v3
ISA_avx512 := -march=x86-64-v4 -mprefer-vector-width=512
KERNEL_CFLAGS := -ffp-contract=fast

# Sources -------------------------------------------------------------------------------------
KERNELS_ONCE := $(addprefix kernels/cpu/,backend.c math.c matmul.c conv.c conv_winograd.c dnnl.c \
                dnnl_api.c dnnl_v$(DNNL_MAJOR).c)
KERNELS_ISA  := $(filter-out $(KERNELS_ONCE) kernels/cpu/dnnl_v%.c,$(wildcard kernels/cpu/*.c))
# What mpicc compiles into a library of its own, see lib/comm/mpi/calls.h.
MPI_SRC  := lib/comm/mpi/calls.c
LIB_SRC  := $(filter-out $(MPI_SRC),$(wildcard lib/*/*.c lib/*/*/*.c)) $(wildcard $(KERNELS_ONCE))
CMD_SRC  := $(wildcard cmd/*.c cmd/*/*.c)
UNIT_SRC := $(wildcard tests/unit/test_*.c)
ORACLE_SRC := $(wildcard tests/oracle/*.c)
BENCH_SRC := $(wildcard tests/bench/*.c)
SHARED_SRC := $(wildcard tests/common/*.c tests/fake/far/*.c)
FAKE_SRC := $(wildcard tests/fake/nvml.c)
FAKE_CUDA_SRC := $(wildcard tests/fake/cuda.c)
# fuzz_replay, which replays saved inputs, leaves out the driver for libFuzzer and a mutator of one target.
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SRC := $(filter-out tests/fuzz/libfuzzer.c tests/fuzz/zip_mutate.c,$(wildcard tests/fuzz/*.c))
CUDA_SRC := $(wildcard tests/fake/cuda.c)
# fuzz_replay, which replays saved inputs, leaves out the driver for libFuzzer and a mutator of one target.
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SRC := $(filter-out tests/fuzz/libfuzzer.c tests/fuzz/zip_mutate.c,$(wildcard tests/fuzz/*.c))
# Private headers of a module are not installed; their first lines say so (tests/lint/internal.awk).
PRIVATE  := $(shell grep -lE '^/\* [^ ]+ - private: ' lib/*/*.h lib/*/*/*.h)
HEADERS  := $(filter-out $(PRIVATE),$(wildcard lib/*/*.h lib/*/*/*.h))

CUDA_SRC := $(wildcard kernels/cuda/*.cu kernels/cuda/*.c kernels/cuda/*/*.cu kernels/cuda/*/*.c)
SIM_SRC  := $(wildcard tests/cudasim/*.cc tests/cudasim/*.cu) tests/cudasim/backends.c $(CUDA_SRC)
# Tables of tests/unit/ that are run on simulated GPUs, too: those of kernels they have, and others.
SIM_TABLES := $(addprefix test_kernels_,attention batch_norm elementwise half matmul norm norm_sync image conv tokens loss square_error head rope)
SIM_TABLES += $(addprefix test_,capture comm_staged ddp fuse_head generate host_call models ops optim pipeline plan scaler sync_bn zero)
SIM_TEST_SRC := $(wildcard tests/cudasim/test_*.c)

LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) \
            $(foreach isa,$(ISAS),$(KERNELS_ISA:%.c=$(BUILD)/obj/$(isa)/%.o))
RECIPES  := $(wildcard cmd/recipes/*.json)
CMD_OBJ  := $(CMD_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/recipes.o
SHARED_OBJ := $(SHARED_SRC:%.c=$(BUILD)/obj/%.o)
TEST_OBJ := $(UNIT_SRC:%.c=$(BUILD)/obj/%.o) $(ORACLE_SRC:%.c=$(BUILD)/obj/%.o) $(SHARED_OBJ)
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/tests/%)
BENCH_BIN := $(BENCH_SRC:tests/bench/%.c=$(BUILD)/tests/bench_%)
ORACLE_BIN := $(ORACLE_SRC:tests/oracle/%.c=$(BUILD)/tests/%)
MPI_SO   := $(if $(filter 1,$(WITH_MPI)),$(BUILD)/libgtrain-mpi.so)
FAKE_SO  := $(FAKE_SRC:tests/fake/nvml.c=$(BUILD)/tests/fake/libnvidia-ml.so.1)
FAKE_OLD_SO := $(FAKE_SO:%.so.1=%-old.so.1)
FAKE_CUDA_SO := $(FAKE_CUDA_SRC:tests/fake/cuda.c=$(BUILD)/tests/fake/libcuda.so.1)
FUZZ_REPLAY := $(BUILD)/tests/fuzz_replay
GTRAIN_FAR := $(BUILD)/tests/gtrain-far
CUDA_OBJ := $(if $(WITH_CUDA),$(patsubst %,$(BUILD)/obj/cuda/%.o,$(CUDA_SRC)))
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
SIM_SO := $(SIM_LT_SO) $(SIM_NCCL_SO) $(SIM_CUDNN_SO)
# With -no-pie a program need not relocate 400,000 pointers of UBSan's each time it starts.
SIM_LINK := -rdynamic $(if $(SANITIZE),,-no-pie) -Wl,--disable-new-dtags,-rpath
SIM_PATH := $$ORIGIN
FUZZ_OBJ := $(FUZZ_SRC:%.c=$(BUILD)/obj/%.o)
PRELOAD_SO := $(addprefix $(BUILD)/tests/fake/,count_allocations.so fail_call.so fast_clock.so slow_lock.so)

# One short line per command; make V=1 shows the commands. $(call say,WHAT,FILE)
V  ?=
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2);)

# Building ------------------------------------------------------------------------------------
all: $(BUILD)/gtrain $(MPI_SO)   ## build build/gtrain (the default)

$(BUILD)/gtrain: $(CMD_OBJ) $(BUILD)/libgtrain.a
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -o $@ $^ $(GT_LIBS)

$(BUILD)/libgtrain.a: $(LIB_OBJ) $(CUDA_OBJ) $(BUILD)/sources
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $(LIB_OBJ) $(CUDA_OBJ)

$(BUILD)/libgtrain-mpi.so: $(MPI_SRC) $(MPI_SRC:.c=.h) $(BUILD)/flags
	$(call say,MPI,$@)OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC) -I. -D_GNU_SOURCE -std=gnu11 $(GT_WARN) -O2 -g \
	    -fPIC -shared -fvisibility=hidden $(CFLAGS) -o $@ $< $(LDFLAGS)

# What test programs share: an archive, so that each takes only what it uses.
$(BUILD)/libshared.a: $(SHARED_OBJ) $(BUILD)/sources
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $(SHARED_OBJ)

$(UNIT_BIN): $(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/libshared.a $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -o $@ $^ -lcmocka $(GT_LIBS)

$(ORACLE_BIN): $(BUILD)/tests/%: $(BUILD)/obj/tests/oracle/%.o $(BUILD)/libshared.a $(BUILD)/libgtrain.a
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

$(BUILD)/tests/gpu/libcublasLt.so.13: tests/gpu/cublaslt.cu tests/common/cublaslt.inc kernels/cuda/cublaslt.h $(BUILD)/cuda
	@mkdir -p $(@D)
	$(call say,NVCC,$@)$(NVCC) $(NVCC_FLAGS) -Xcompiler -fPIC -shared -Xlinker -soname=$(@F) -o $@ $<

$(FUZZ_REPLAY): $(FUZZ_OBJ) $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -o $@ $^ $(GT_LIBS)

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

# The list of backends has this one where it is built.
$(BUILD)/obj/lib/device/backend.o: GT_CPP += $(if $(WITH_CUDA),-DGT_WITH_CUDA)
$(BUILD)/obj/lib/device/backend.o: $(BUILD)/cuda

# The instruction wgmma exists in sm_90a alone: not in sm_90, and not in the code for GPUs to come. So
# these files are for Hopper GPUs only; without 90 in CUDA_ARCH they have no kernels.
$(BUILD)/obj/cuda/kernels/cuda/attention_wgmma%.o: private CUDA_CODE := $(if $(filter 90 90a,$(CUDA_ARCH)), \
    -gencode arch=compute_90a$(comma)code=sm_90a -DGT_SM90A,$(CUDA_CODE))

$(BUILD)/obj/cuda/%.cu.o: %.cu $(BUILD)/cuda
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(BUILD)/obj/cuda/%.c.o: %.c $(BUILD)/cuda
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) -isystem $(CUDA_HOME)/include $(GT_CPP) $(GT_CFLAGS) -MMD -MP -c -o $@ $<

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

# This one takes the machine's own cuDNN.
$(BUILD)/tests/cudasim/test_cudnn_real: SIM_PATH := $$ORIGIN/none
$(SIM_BIN) $(SIM_TABLE_BIN): | $(SIM_SO)
$(SIM_LT_SO): tests/cudasim/lib/cublaslt.cc tests/common/cublaslt.inc kernels/cuda/cublaslt.h
$(SIM_NCCL_SO): $(addprefix tests/cudasim/lib/nccl,.cc _ranks.cc _sums.cc _ranks.h) kernels/cuda/nccl/api.h
$(SIM_CUDNN_SO): tests/cudasim/lib/cudnn.cc kernels/cuda/cudnn/api.h
$(SIM_SO): tests/cudasim/inside.h tests/cudasim/cudasim.h $(BUILD)/cudasim
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(SIM_CXX) $(SIM_SAN) -fPIC -shared -Wl,-soname,$(@F) -o $@ $(filter %.cc,$^)

define isa_rule
$(BUILD)/obj/$(1)/%.o: %.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< ($(1))')$(CC) $(GT_CPP) -DGT_ISA_NAME=$(1) $(GT_CFLAGS) $(KERNEL_CFLAGS) $(ISA_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(ISAS),$(eval $(call isa_rule,$(isa))))

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(GT_CPP) $(GT_CFLAGS) -MMD -MP -c -o $@ $<

# The recipes are texts in the program.
$(BUILD)/recipes: FORCE
	@$(call stamp,$(RECIPES))

$(BUILD)/recipes.c: cmd/recipes/embed.awk $(RECIPES) $(BUILD)/recipes
	$(call say,TEXT,$@)awk -f cmd/recipes/embed.awk $(RECIPES) >$@

$(BUILD)/obj/recipes.o: $(BUILD)/recipes.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(GT_CPP) $(GT_CFLAGS) -MMD -MP -c -o $@ $<

# Stamps that change when the flags or the list of sources do, so that what depends on them is
# built again. $(call stamp,TEXT)
stamp = mkdir -p $(@D) && { echo '$(subst ','\'',$(1))' | cmp -s - $@ || echo '$(subst ','\'',$(1))' >$@; }

$(BUILD)/flags: FORCE
	@pkg-config --exists --print-errors $(PACKAGES) || { \
	    echo "gtrain needs the libraries $(PACKAGES) and dnnl; \`make deps' installs them" >&2; exit 1; }
	@test -e kernels/cpu/dnnl_v$(DNNL_MAJOR).c || { echo "gtrain needs oneDNN 2 or 3 and its header dnnl.h;" \
	    "$(if $(DNNL_MAJOR),this is oneDNN $(DNNL_MAJOR),there is none here: \`make deps' installs it)" >&2; exit 1; }
	@$(call stamp,$(CC) $(GT_CPP) $(GT_CFLAGS) $(KERNEL_CFLAGS) $(foreach isa,$(ISAS),$(ISA_$(isa))))

$(BUILD)/cuda: FORCE
	@$(if $(filter 1-,$(CUDA)-$(NVCC)),echo "CUDA=1: no nvcc on the path or in /usr/local/cuda/bin" >&2; exit 1)
	@$(call stamp,$(if $(WITH_CUDA),$(NVCC) $(NVCC_FLAGS),no kernels for GPUs: \
	    $(if $(filter 0,$(CUDA)),CUDA=0,$(if $(SANITIZE),SANITIZE,no nvcc on the path or in /usr/local/cuda/bin))))
	@$(if $(WITH_CUDA),,cmp -s $@ $@.told || { cat $@; cp $@ $@.told; })

$(BUILD)/cudasim: FORCE
	@$(call stamp,$(CXX) $(SIM_CXX) $(SIM_SAN) $(CC) $(GT_CPP) $(GT_CFLAGS))

$(BUILD)/sources: FORCE
	@$(call stamp,$(LIB_OBJ) $(CUDA_OBJ) $(SHARED_OBJ))

# Setting up ----------------------------------------------------------------------------------
deps:   ## install the Debian packages that a build needs, those that are missing
	@sh .ci/deps $(DEPS_BUILD)

deps-test: deps   ## ... and those that the tests need
	@sh .ci/deps --optional $(DEPS_TEST) $(if $(findstring thread,$(SANITIZE)),$(DEPS_TSAN))

# What needs packages calls make again once they are there: only then is pkg-config's answer right.
AGAIN = +@$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))

# Testing -------------------------------------------------------------------------------------
T       ?=
REQUIRE ?=
# Tests wait for clocks, for the disk and for each other. Two files more than processors keep all processors busy.
TEST_JOBS = $(shell expr $(JOBS) + 2)
RUN_TESTS = BUILD='$(BUILD)' T='$(T)' REQUIRE='$(REQUIRE)' SANITIZE='$(SANITIZE)' PYTHON='$(PYTHON)' \
            JOBS='$(TEST_JOBS)' CC='$(CC)' LINT_FLAGS='$(subst ','\'',$(GT_CPP) $(GT_CFLAGS))'

check: deps-test   ## run every test; T=shm only those so named; REQUIRE=torch,data,cuda forbids skips
	$(AGAIN) check-run

check-run: all tests
	@$(RUN_TESTS) tests/run

tests: $(UNIT_BIN) $(BENCH_BIN) $(SIM_BIN) $(SIM_TABLE_BIN) $(GTRAIN_SIM) $(ORACLE_BIN) $(FUZZ_REPLAY) $(GTRAIN_FAR) $(FAKE_SO) $(FAKE_OLD_SO) $(FAKE_CUDA_SO) $(PRELOAD_SO)   ## build the test programs

ROUNDS ?= 100

check-chaos: all   ## kill, stop and slow ranks at random while they train, ROUNDS=100 times
	GTRAIN=$(BUILD)/gtrain $(PYTHON) tests/chaos/chaos.py $(ROUNDS) $(SEED)

# The program with sanitizers reads what is damaged; that without makes files, is killed, and meets failing calls.
HOSTILE_SAN := address,undefined
HOSTILE_DIR := build/$(subst $(comma),-,$(HOSTILE_SAN))

check-hostile: all tests   ## run campaigns of damaged files, failing calls, kills, races: TIME=1800 SEED=n JOBS=2 T=faults
	+@$(MAKE) --no-print-directory SANITIZE=$(HOSTILE_SAN) BUILD=$(HOSTILE_DIR) all
	$(PYTHON) tests/hostile/run.py --gtrain $(HOSTILE_DIR)/gtrain --plain $(BUILD)/gtrain --tests $(BUILD)/tests \
	    --time $(TIME) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(if $(T),--only $(T))

# Kernels alone have the thread sanitizer. gcc's OpenMP has a single thread, see above. Ranks that are
# processes start threads after a fork, which the sanitizer refuses by default.
check-races: deps-test   ## run kernels on simulated GPUs under the thread sanitizer, for races within and between blocks (slow)
	+@$(MAKE) --no-print-directory BUILD=build/races SIM_SANITIZE=thread CUDA=0 $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS)) check-races-run

check-races-run: $(SIM_BIN) $(SIM_TABLE_BIN) $(GTRAIN_SIM)
	@OMP_NUM_THREADS=1 TIMEOUT=3600 TSAN_OPTIONS=die_after_fork=0 $(RUN_TESTS) tests/run cudasim

# Nothing is installed for it: a machine with a GPU often has no network. Without a GPU it says so.
check-gpu:   ## run tables, models, training and benchmarks on this machine's GPU, and the toolkit's checkers; PEERS=file.json
	+@$(MAKE) --no-print-directory CUDA=1 $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS)) check-gpu-run

check-gpu-run: all $(GPU_TABLE_BIN) $(GPU_SO) $(ORACLE_BIN)
	@TIMEOUT=600 $(RUN_TESTS) tests/run gpu
	@! $(BUILD)/gtrain probe --json | grep -q '"available": true' || \
	    GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/bench/gpu.py $(if $(PEERS),--peers '$(PEERS)')

# In chroots, which build there: this tree's build has no part in it.
check-systems:   ## demo and check in fresh chroots of Debian 12 and 13, and a build with oneDNN 3.1 (root, slow): SYSTEM=trixie one of them
	@SYSTEMS='$(or $(SYSTEMS),$(BUILD)/systems)' MIRROR='$(MIRROR)' JOBS='$(JOBS)' T='$(T)' REQUIRE='$(REQUIRE)' \
	    PYTHON='$(PYTHON)' tests/systems/run $(SYSTEM)

check-curves: all   ## compare loss curves of all models, parallel modes and ranks with one rank's; T=zero3 some
	GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/curves/curves.py '$(T)'

check-cifar10: all   ## train ResNet-20 on the JPEGs of CIFAR-10 beside PyTorch, 5 epochs, 3 seeds (an hour or two)
	GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/curves/cifar10.py --results '$(BUILD)/cifar10.json'

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

demo: deps   ## build, then show what gtrain does
	$(AGAIN) demo-run

demo-run: all
	@GTRAIN='$(BUILD)/gtrain' sh tests/demo.sh

# Fuzzing: clang's libFuzzer on the readers of checkpoints, tokenizers, tables and images, see tests/fuzz/README.md.
# The objects are fuzz targets' own: the normal build has no part in it, and only these readers are
# compiled.
FUZZ     ?= pickle
TIME     ?= 60
FUZZ_CC  ?= clang
FUZZ_DIR := build/fuzz
FUZZ_SAN := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_LIB := $(wildcard lib/base/*.c lib/ckpt/*.c lib/ckpt/*/*.c lib/data/bpe/*.c) lib/device/dtype.c \
            lib/data/csv_reader.c lib/data/exif.c $(addprefix lib/data/images_,decode.c formats.c jpeg.c png.c webp.c resize.c kernels.c)
FUZZ_USE := use commands splice
FUZZ_FLAGS := $(GT_CPP) -std=gnu11 -O1 -g -fsanitize=fuzzer-no-link $(FUZZ_SAN)
FUZZ_BIN := $(FUZZ_NAMES:%=$(FUZZ_DIR)/fuzz_%)
FUZZ_LIMITS := -rss_limit_mb=512 -malloc_limit_mb=256 -timeout=30

fuzz: $(FUZZ_BIN)   ## build the fuzz targets into build/fuzz/

$(FUZZ_DIR)/flags: FORCE
	@$(call stamp,$(FUZZ_CC) $(FUZZ_FLAGS))

$(FUZZ_DIR)/obj/%.o: %.c $(FUZZ_DIR)/flags
	@mkdir -p $(@D)
	$(call say,FUZZ,$<)$(FUZZ_CC) $(FUZZ_FLAGS) -MMD -MP -c -o $@ $<

$(FUZZ_DIR)/obj/libfuzzer_%.o: tests/fuzz/libfuzzer.c $(FUZZ_DIR)/flags
	$(call say,FUZZ,$@)$(FUZZ_CC) $(FUZZ_FLAGS) -DFUZZ_TARGET=fuzz_$* -c -o $@ $<

# Archives of zip are mutated by records too.
$(filter %_zip %_npz,$(FUZZ_BIN)): $(FUZZ_DIR)/obj/tests/fuzz/zip_mutate.o
$(FUZZ_BIN): $(FUZZ_DIR)/fuzz_%: $(FUZZ_DIR)/obj/tests/fuzz/fuzz_%.o $(FUZZ_DIR)/obj/libfuzzer_%.o \
             $(FUZZ_USE:%=$(FUZZ_DIR)/obj/tests/fuzz/%.o) $(FUZZ_LIB:%.c=$(FUZZ_DIR)/obj/%.o)
	$(call say,LINK,$@)$(FUZZ_CC) -fsanitize=fuzzer $(FUZZ_SAN) -o $@ $^ $(PKG_LIBS) -lm -lpthread

# What is found lies in build/fuzz/found/; make it small with `build/fuzz/fuzz_X -minimize_crash=1`.
fuzz-run: fuzz   ## run one of them: FUZZ=pickle|zip|legacy|safetensors|npz|race|tokenizer|csv|image TIME=seconds
	@mkdir -p $(FUZZ_DIR)/corpus/$(FUZZ) $(FUZZ_DIR)/found
	@$(PYTHON) tests/fuzz/corpus.py $(FUZZ_DIR)/seeds
	ASAN_OPTIONS=quarantine_size_mb=16 $(FUZZ_DIR)/fuzz_$(FUZZ) $(FUZZ_LIMITS) -max_total_time=$(TIME) -max_len=16384 -print_final_stats=1 \
	    -dict=tests/fuzz/$(FUZZ).dict -artifact_prefix=$(FUZZ_DIR)/found/$(FUZZ)- \
	    $(FUZZ_DIR)/corpus/$(FUZZ) $(FUZZ_DIR)/seeds/$(FUZZ) $(wildcard tests/fuzz/regressions/$(FUZZ))

check-models: all tests   ## compare the large models' loss curves with PyTorch's too, and fit one into 4 GiB (slow)
	GTRAIN_TESTS='$(BUILD)/tests' OPENBLAS_CORETYPE=SKYLAKEX MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1 \
	    $(PYTHON) tests/oracle/models.py --large
	GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/oracle/recompute.py --large

bench: all $(BENCH_BIN)   ## measure speed beside PyTorch's; BENCH='--quick --check' are its options
	@GTRAIN='$(BUILD)/gtrain' GTRAIN_TESTS='$(BUILD)/tests' $(PYTHON) tests/bench/bench.py $(BENCH)

bench-ckpt: all   ## time operations on a 4 GiB checkpoint beside cp and PyTorch (BENCH='--check')
	@GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/bench/ckpt.py $(BENCH)

bench-allreduce: all   ## time the sum over ranks beside Open MPI and gloo (BENCH='--check')
	@GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/bench/allreduce.py $(BENCH)

bench-generate: all $(BENCH_BIN)   ## time gpt2's tokens beside PyTorch with a key-value cache (BENCH='--check')
	@GTRAIN='$(BUILD)/gtrain' GTRAIN_TESTS='$(BUILD)/tests' $(PYTHON) tests/bench/generate.py $(BENCH)

bench-loader: all $(BENCH_BIN)   ## time the loader of images beside PyTorch's and libjpeg-turbo (BENCH='--check')
	@GTRAIN_TESTS='$(BUILD)/tests' $(PYTHON) tests/bench/loader.py $(BENCH)

bench-ranks: all   ## time steps of two ranks beside those of one (BENCH='--check')
	@GTRAIN='$(BUILD)/gtrain' $(PYTHON) tests/bench/ranks.py $(BENCH)

bench-tokenize: all $(BENCH_BIN)   ## time tokenizers on one core and on all (BENCH='--check')
	@GTRAIN_TESTS='$(BUILD)/tests' $(PYTHON) tests/bench/tokenizers.py $(BENCH)

# Installing ----------------------------------------------------------------------------------
bindir     := $(PREFIX)/bin
libdir     := $(PREFIX)/lib
includedir := $(PREFIX)/include
mandir     := $(PREFIX)/share/man
INSTALL    ?= install

# The public headers: gtrain.h, those that it includes, and those that these need.
PUBLIC     = $(filter lib/%,$(shell $(CC) $(GT_CPP) -MM lib/gtrain.h))

# FROM:TO of every file that is installed, without the modes.
INSTALLED  = $(BUILD)/gtrain:$(bindir)/gtrain \
             $(BUILD)/libgtrain.a:$(libdir)/libgtrain.a \
             $(if $(MPI_SO),$(MPI_SO):$(libdir)/gtrain/libgtrain-mpi.so) \
             $(BUILD)/gtrain.pc:$(libdir)/pkgconfig/gtrain.pc \
             lib/gtrain.h:$(includedir)/gtrain/gtrain.h \
             $(foreach h,$(filter-out lib/gtrain.h,$(PUBLIC)),$(h):$(includedir)/gtrain/$(h)) \
             $(foreach m,$(wildcard man/*.1),$(m):$(mandir)/man1/$(notdir $(m))) \
             $(foreach m,$(wildcard man/*.7),$(m):$(mandir)/man7/$(notdir $(m))) \
             $(foreach s,$(wildcard man/schemas/*.json),$(s):$(PREFIX)/share/gtrain/$(s:man/%=%)) \
             $(foreach r,$(RECIPES),$(r):$(PREFIX)/share/gtrain/recipes/$(notdir $(r))) \
             $(foreach c,$(wildcard completions/gtrain.bash),$(c):$(PREFIX)/share/bash-completion/completions/gtrain) \
             $(foreach c,$(wildcard completions/_gtrain),$(c):$(PREFIX)/share/zsh/site-functions/_gtrain) \
             $(foreach c,$(wildcard completions/gtrain.fish),$(c):$(PREFIX)/share/fish/vendor_completions.d/gtrain.fish)

install: all $(BUILD)/gtrain.pc   ## install under DESTDIR/PREFIX
	@set -e; for pair in $(INSTALLED); do \
	    from="$${pair%%:*}" to="$(DESTDIR)$${pair#*:}"; mode=644; \
	    case "$$to" in */bin/*) mode=755 ;; esac; \
	    echo "install $$to"; $(INSTALL) -D -m $$mode "$$from" "$$to"; done

uninstall:   ## remove what install put there
	@set -e; for pair in $(INSTALLED); do rm -f "$(DESTDIR)$${pair#*:}"; done
	@if [ -d "$(DESTDIR)$(includedir)/gtrain" ]; then \
	    find "$(DESTDIR)$(includedir)/gtrain" -depth -type d -empty -delete; fi

# There is only a static library, so what it needs stands under Libs too.
$(BUILD)/gtrain.pc: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' \
	    'Name: gtrain' 'Description: training of neural networks, and checkpoints' \
	    'Version: $(VERSION)' 'Requires: $(PACKAGES)' 'Cflags: -I$${includedir} -I$${includedir}/gtrain' \
	    'Libs: -L$${libdir} -lgtrain $(CUDA_LIBS) -fopenmp -lm -ldl -lpthread' >$@

# Looking around ------------------------------------------------------------------------------
map:   ## print where changes begin, the index of the code, and its largest files and functions
	@tests/lint/map

help:   ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile
	@echo "knobs: BUILD CC CFLAGS CUDA=auto|0|1 CUDA_ARCH='80 90' CXX DESTDIR JOBS MPI=auto|0|1 MPICC OPT PREFIX PYTHON SANITIZE=address,undefined|thread V=1 WERROR"

clean:   ## remove everything built
	rm -rf build

FORCE:
.PHONY: all bench bench-allreduce bench-ckpt bench-generate bench-loader bench-ranks bench-tokenize check check-chaos check-cifar10 check-curves check-gpu check-gpu-run check-hostile check-models check-races check-races-run check-run check-systems check-valgrind check-valgrind-run clean demo demo-run deps \
        deps-test fuzz fuzz-run help install lint map tests tidy uninstall FORCE
.SECONDARY:
.DELETE_ON_ERROR:
-include $(patsubst %.o,%.d,$(LIB_OBJ) $(CMD_OBJ) $(TEST_OBJ) $(FUZZ_OBJ) $(CUDA_OBJ) $(SIM_OBJ) $(SIM_TEST_OBJ))
-include $(wildcard $(addsuffix /*.d,$(addprefix $(FUZZ_DIR)/obj/,lib/base lib/ckpt lib/data lib/data/bpe lib/device tests/fuzz)))
