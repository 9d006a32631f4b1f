# gtrain - build, test, install.  `make help` lists the targets, config.mak may override the knobs.

PREFIX   ?= /usr/local
DESTDIR  ?=
SANITIZE ?=
BUILD    ?= build$(if $(SANITIZE),/$(subst $(comma),-,$(SANITIZE)))
CC       ?= cc
OPT      ?= -O3 -g
comma    := ,
-include config.mak

VERSION  := 0.1.0
WARN     := -Wall -Wextra -Werror -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wpointer-arith
PACKAGES := zlib jansson libpng libjpeg
CPPFLAGS += -I. -D_GNU_SOURCE -DGT_VERSION='"$(VERSION)"'
CFLAGS   += -std=gnu11 $(OPT) $(WARN) -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off \
            $(shell pkg-config --cflags $(PACKAGES)) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
LDLIBS   += -ldnnl $(shell pkg-config --libs $(PACKAGES)) -lm -ldl -lpthread
LDFLAGS  += -fopenmp $(if $(SANITIZE),-fsanitize=$(SANITIZE))

# CPU kernels are compiled once per instruction set; the backend picks a table when it starts.
ifeq ($(shell uname -m),x86_64)
ISAS := base avx2 avx512
else
ISAS := base
endif
ISA_base   :=
ISA_avx2   := -march=x86-64-v3
ISA_avx512 := -march=x86-64-v4 -mprefer-vector-width=512
KERNEL_CFLAGS := -ffp-contract=fast

KERNELS_ONCE := $(addprefix kernels/cpu/,backend.c matmul.c conv.c dnnl.c)
KERNELS_ISA  := $(filter-out $(KERNELS_ONCE),$(wildcard kernels/cpu/*.c))
LIB_SRC  := $(wildcard lib/*/*.c lib/*/*/*.c) $(wildcard $(KERNELS_ONCE))
CMD_SRC  := $(wildcard cmd/*.c)
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) \
            $(foreach isa,$(ISAS),$(KERNELS_ISA:%.c=$(BUILD)/obj/$(isa)/%.o))
CMD_OBJ  := $(CMD_SRC:%.c=$(BUILD)/obj/%.o)
TEST_SRC := $(wildcard tests/unit/test_*.c)
TEST_BIN := $(TEST_SRC:tests/unit/%.c=$(BUILD)/tests/%)
TEST_LIB := $(BUILD)/tests/fake/libnvidia-ml.so.1 $(BUILD)/tests/fake/libnvidia-ml-old.so.1

all: $(BUILD)/gtrain   ## build gtrain

$(BUILD)/gtrain: $(CMD_OBJ) $(BUILD)/libgtrain.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libgtrain.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# A pretend NVML, and one so old that it lacks most functions, for tests without a GPU.
$(TEST_LIB): tests/fake/nvml.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(if $(findstring -old,$@),-DFAKE_NVML_OLD) -fPIC -shared -o $@ $<

define isa_rule
$(BUILD)/obj/$(1)/%.o: %.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$(CC) $(CPPFLAGS) -DGT_ISA_NAME=$(1) $(CFLAGS) $(KERNEL_CFLAGS) $(ISA_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(ISAS),$(eval $(call isa_rule,$(isa))))

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# A stamp that changes when the flags do, so that everything is built again.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CPPFLAGS) $(CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CPPFLAGS) $(CFLAGS)' >$@

tests: $(TEST_BIN) $(TEST_LIB)

clean:   ## remove everything built
	rm -rf build

FORCE:
.PHONY: all tests clean FORCE
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
