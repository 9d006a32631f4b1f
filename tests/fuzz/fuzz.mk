# fuzz.mk - the fuzz targets, and the program that replays what they found; the Makefile includes it.

# fuzz_replay, which replays saved inputs, leaves out the driver for libFuzzer and a mutator of one target.
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SRC := $(filter-out tests/fuzz/libfuzzer.c tests/fuzz/zip_mutate.c,$(wildcard tests/fuzz/*.c))
FUZZ_OBJ := $(FUZZ_SRC:%.c=$(BUILD)/obj/%.o)
FUZZ_REPLAY := $(BUILD)/tests/fuzz_replay

$(FUZZ_REPLAY): $(FUZZ_OBJ) $(BUILD)/libgtrain.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -o $@ $^ $(GT_LIBS)

# Fuzzing: clang's libFuzzer on the readers of checkpoints, tokenizers, tables and images, see tests/fuzz/README.md.
# The objects are fuzz targets' own: the normal build has no part in it.
FUZZ     ?= pickle
TIME     ?= 60
FUZZ_CC  ?= clang
FUZZ_DIR := build/fuzz
FUZZ_SAN := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# The library without training: a target takes the objects that it needs.
FUZZ_LIB_OBJ := $(patsubst %.c,$(FUZZ_DIR)/obj/%.o,$(filter lib/base/% lib/ckpt/% lib/data/% lib/device/% lib/graph/% lib/model/%,$(LIB_SRC)))
FUZZ_USE := use commands splice network
FUZZ_FLAGS := $(GT_CPP) -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION -std=gnu11 -O1 -g -fsanitize=fuzzer-no-link $(FUZZ_SAN)
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

$(FUZZ_DIR)/libgtrain.a: $(FUZZ_LIB_OBJ)
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^

# Archives of zip are mutated by records too.
$(filter %_zip %_npz %_exported,$(FUZZ_BIN)): $(FUZZ_DIR)/obj/tests/fuzz/zip_mutate.o
$(FUZZ_BIN): $(FUZZ_DIR)/fuzz_%: $(FUZZ_DIR)/obj/tests/fuzz/fuzz_%.o $(FUZZ_DIR)/obj/libfuzzer_%.o \
             $(FUZZ_USE:%=$(FUZZ_DIR)/obj/tests/fuzz/%.o) $(FUZZ_DIR)/libgtrain.a
	$(call say,LINK,$@)$(FUZZ_CC) -fsanitize=fuzzer $(FUZZ_SAN) -o $@ $^ $(PKG_LIBS) -lm -lpthread

# What is found lies in build/fuzz/found/; make it small with `build/fuzz/fuzz_X -minimize_crash=1`.
fuzz-run: fuzz   ## run one of them: FUZZ=pickle|zip|legacy|safetensors|npz|race|tokenizer|csv|image|exported|onnx|sequence|dcp|gguf|jinja|keys TIME=seconds
	@mkdir -p $(FUZZ_DIR)/corpus/$(FUZZ) $(FUZZ_DIR)/found
	@$(PYTHON) tests/fuzz/corpus.py $(FUZZ_DIR)/seeds
	ASAN_OPTIONS=quarantine_size_mb=16 $(FUZZ_DIR)/fuzz_$(FUZZ) $(FUZZ_LIMITS) -max_total_time=$(TIME) -max_len=$(if $(filter exported,$(FUZZ)),40000,16384) -print_final_stats=1 \
	    -dict=tests/fuzz/$(FUZZ).dict -artifact_prefix=$(FUZZ_DIR)/found/$(FUZZ)- \
	    $(FUZZ_DIR)/corpus/$(FUZZ) $(FUZZ_DIR)/seeds/$(FUZZ) $(wildcard tests/fuzz/regressions/$(FUZZ))

.PHONY: fuzz fuzz-run
-include $(FUZZ_OBJ:.o=.d) $(FUZZ_LIB_OBJ:.o=.d) $(wildcard $(FUZZ_DIR)/obj/tests/fuzz/*.d)
