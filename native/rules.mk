# The engine's C code: one object per source under build/<arch>/obj, one static library, one check program.
#
#   ARCH  the machine to build for (default: this one); CC, AR follow it
#   SAN   sanitizers, such as address,undefined or thread; objects go to build/<arch>-<san>
#
# A folder under native/src/kernels is an instruction set with flags of its own.  Nothing else leaves the baseline,
# so the library starts on every CPU of its architecture and select.c alone decides what more may run.

comma := ,
HOST_ARCH := $(subst arm64,aarch64,$(shell uname -m))
ARCH ?= $(HOST_ARCH)
ifeq ($(ARCH),$(HOST_ARCH))
CROSS :=
else
CROSS := $(ARCH)-linux-gnu-
endif
ifeq ($(origin CC),default)
CC := $(CROSS)gcc
endif
ifeq ($(origin AR),default)
AR := $(CROSS)ar
endif

BUILD := build/$(ARCH)$(if $(SAN),-$(subst $(comma),-,$(SAN)))
LIB := $(BUILD)/libqwarm.a
CHECK := $(BUILD)/check

BASELINE_x86_64 := -march=x86-64-v2
BASELINE_aarch64 := -march=armv8-a
ISAS_x86_64 := scalar avx2 avx512vnni
ISAS_aarch64 := scalar dotprod i8mm

FAST := -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math
FLAGS_scalar := -O2 -ffp-contract=off
FLAGS_avx2 := $(FAST) -mavx2 -mfma -mf16c -mbmi2
FLAGS_avx512vnni := $(FAST) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma -mf16c -mbmi2 \
	-mprefer-vector-width=512
FLAGS_dotprod := $(FAST) -march=armv8.2-a+dotprod+fp16
FLAGS_i8mm := $(FAST) -march=armv8.2-a+dotprod+fp16+i8mm+bf16

CFLAGS := -std=gnu11 -O2 $(BASELINE_$(ARCH)) -fPIC -pthread -Wall -Wextra -Wpedantic
CPPFLAGS := -Inative/include -Inative/src -MMD -MP
SAN_FLAGS := $(if $(SAN),-g -fno-omit-frame-pointer -fno-sanitize-recover=all -fsanitize=$(SAN))
LDLIBS := -lm

ISAS := $(ISAS_$(ARCH))
ifeq ($(ISAS),)
$(error ARCH=$(ARCH): the engine builds for x86_64 and aarch64)
endif
SOURCES := $(wildcard native/src/*.c native/src/kernels/*.c $(ISAS:%=native/src/kernels/%/*.c))
OBJECTS := $(SOURCES:native/src/%.c=$(BUILD)/obj/%.o)
CHECK_OBJECTS := $(patsubst tests/native/%.c,$(BUILD)/obj/check/%.o,$(wildcard tests/native/*.c))

$(foreach isa,$(ISAS),$(eval $(BUILD)/obj/kernels/$(isa)/%.o: ISA_FLAGS = $(FLAGS_$(isa))))
$(foreach isa,$(ISAS),$(eval $(BUILD)/tidy/kernels/$(isa)/%.ok: ISA_FLAGS = $(FLAGS_$(isa))))

$(BUILD)/obj/%.o: native/src/%.c native/rules.mk
	@mkdir -p $(@D)
	@echo '$(CC) $< $(ISA_FLAGS) $(SAN_FLAGS)'
	@$(CC) $(CPPFLAGS) $(CFLAGS) $(ISA_FLAGS) $(SAN_FLAGS) -c $< -o $@

$(BUILD)/obj/check/%.o: tests/native/%.c native/rules.mk
	@mkdir -p $(@D)
	@echo '$(CC) $< $(SAN_FLAGS)'
	@$(CC) $(CPPFLAGS) $(CFLAGS) $(SAN_FLAGS) -c $< -o $@

# An object is built again when a header changes, so what follows it is looked at again too.
CLANG_TIDY ?= clang-tidy
TIDY := $(OBJECTS:$(BUILD)/obj/%.o=$(BUILD)/tidy/%.ok)
$(BUILD)/tidy/%.ok: $(BUILD)/obj/%.o .clang-tidy native/src/kernels/.clang-tidy
	@mkdir -p $(@D)
	@found=$$($(CLANG_TIDY) --quiet native/src/$*.c -- $(CPPFLAGS) $(CFLAGS) $(ISA_FLAGS) \
		$(if $(CROSS),--target=$(ARCH)-linux-gnu) 2>&1) || { echo "$$found"; exit 1; }
	@touch $@

# A removed source must leave the library too, so the list of objects is part of what it depends on.
$(BUILD)/objects.txt: FORCE
	@mkdir -p $(@D)
	@echo '$(OBJECTS)' | cmp -s - $@ || echo '$(OBJECTS)' > $@

$(LIB): $(OBJECTS) $(BUILD)/objects.txt
	@rm -f $@
	@echo '$(AR) $@'
	@$(AR) rcs $@ $(OBJECTS)

# Cross-built checks run under qemu, which has no library folder of the other machine: link them statically.
$(CHECK): $(CHECK_OBJECTS) $(LIB)
	@echo '$(CC) $@'
	@$(CC) $(CFLAGS) $(SAN_FLAGS) $(if $(CROSS),-static) $^ $(LDLIBS) -o $@

$(BUILD)/run_model: tests/native/programs/run_model.c $(LIB)
	@echo '$(CC) $@'
	@$(CC) $(CPPFLAGS) $(CFLAGS) $(SAN_FLAGS) $(if $(CROSS),-static) $< $(LIB) $(LDLIBS) -o $@

# Programs that run a model of any shape.  The fuzzer is clang's: SAN=fuzzer-no-link,address,undefined CC=clang-19.
WRAPPED := malloc calloc aligned_alloc free mmap munmap pthread_create
$(BUILD)/refuse_memory: LINK := $(patsubst %,-Wl$(comma)--wrap=%,$(WRAPPED))
$(addprefix $(BUILD)/,callers refuse_memory fuzz_model): $(BUILD)/%: tests/native/programs/%.c \
		tests/native/programs/any_model.c tests/native/programs/any_model.h $(LIB)
	@echo '$(CC) $@'
	@$(CC) $(CPPFLAGS) $(CFLAGS) $(subst fuzzer-no-link,fuzzer,$(SAN_FLAGS)) $(LINK) \
		$(filter %.c,$^) $(LIB) $(LDLIBS) -o $@

.PHONY: FORCE
FORCE:

-include $(OBJECTS:.o=.d) $(CHECK_OBJECTS:.o=.d)
