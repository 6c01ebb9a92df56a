# Everything lands in .venv/ and build/ (and the extension module beside engine/).  `make help` lists the targets.

PYTHON ?= .venv/bin/python
MODEL ?= $(or $(QWARM_MODEL),models/qwarm-demo.gguf)
PORT ?= 8080

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/:.*## /\t/' | expand -t 16

include native/rules.mk

VENV := $(if $(filter .venv/%,$(PYTHON)),.venv/.complete)
EXTENSION := engine/_native.abi3.so

# --- build ---

venv: .venv/.complete  ## .venv with everything development needs, pinned by hash
native: $(LIB) $(if $(CROSS)$(SAN),,$(EXTENSION))  ## the static library and, for this machine, the extension module

# Compilers and headers that a bare machine lacks.  An image's build, with a PYTHON of its own, has them already.
$(if $(VENV),$(OBJECTS) $(CHECK_OBJECTS)): | build/.tools
build/.tools: native/install.sh
	@native/install.sh build
	@mkdir -p $(@D) && touch $@

.venv/.complete: requirements/dev.txt | build/.tools
	python3 -m venv .venv
	.venv/bin/pip install --quiet --no-deps --require-hashes -r requirements/dev.txt
	touch $@

$(EXTENSION): $(LIB) engine/native_build.py native/include/qwarm.h $(VENV)
	CC='$(CC)' $(PYTHON) engine/native_build.py $(LIB) $@

UV_COMPILE = .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --custom-compile-command 'make lock'
lock: $(VENV)  ## write requirements/*.txt again from pyproject.toml
	.venv/bin/pip install --quiet uv
	$(UV_COMPILE) pyproject.toml -o requirements/runtime.txt
	$(UV_COMPILE) pyproject.toml --extra s3 -o requirements/s3.txt
	$(UV_COMPILE) pyproject.toml --extra dev -o requirements/dev.txt
	$(UV_COMPILE) pyproject.toml --extra clients -o requirements/clients.txt
	$(UV_COMPILE) pyproject.toml --extra instructor -o requirements/instructor.txt
	$(UV_COMPILE) --group sam -o requirements/sam.txt
	$(UV_COMPILE) --group sam --no-deps -o requirements/rie.txt
	$(UV_COMPILE) --group lint -o requirements/lint.txt
	$(UV_COMPILE) --group fuzz -o requirements/fuzz.txt
	$(UV_COMPILE) --group peers -o requirements/peers.txt
	$(UV_COMPILE) --group mistral -o requirements/mistral.txt
	$(UV_COMPILE) --group audit -o requirements/audit.txt
	$(UV_COMPILE) --no-config --group hub -o requirements/hub.txt

# --- test ---

JOBS := $(shell nproc)
QEMU := $(shell command -v qemu-aarch64)
ARM_CC := $(shell command -v aarch64-linux-gnu-gcc)
CAN_CROSS := $(and $(QEMU),$(ARM_CC),$(filter x86_64,$(HOST_ARCH)))
ARM_CPUS := neoverse-n1 max,sve=off max,sve128=on max,sve128=on,sve256=on max,sve128=on,sve256=on,sve512=on

check: check-isa $(if $(CAN_CROSS),check-arm)  ## the C checks here and, with a cross compiler and qemu, on aarch64

check-isa: $(CHECK)  ## the C checks on this machine, every kernel set its CPU has
	$(CHECK)

check-arm:  ## the C checks built for aarch64, under qemu on each CPU we run on
	$(MAKE) -j$(JOBS) ARCH=aarch64 CC=$(ARM_CC) AR=aarch64-linux-gnu-ar build/aarch64/check build/aarch64/run_model
	for cpu in $(ARM_CPUS); do echo "qemu -cpu $$cpu"; $(QEMU) -cpu $$cpu build/aarch64/check || exit 1; done

test-arm: native check-arm  ## the logits of every reference model on aarch64, under qemu
	QWARM_TEST_ARM_ALL=1 $(PYTHON) -m pytest tests/engine/test_arm64.py tests/golden

ASAN := build/$(HOST_ARCH)-address-undefined
TSAN := build/$(HOST_ARCH)-thread
# Python itself is not built with ASan, so the library has to be there before it, and what it leaves at its end is its own.
ASAN_PYTHON = LD_PRELOAD=$(shell $(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=. $(PYTHON)
sanitize: native  ## C checks, whole models, a full chat, refused memory and concurrent callers under ASan, UBSan and TSan
	$(MAKE) -j$(JOBS) SAN=address,undefined $(addprefix $(ASAN)/,check run_model callers refuse_memory _native.abi3.so)
	$(MAKE) -j$(JOBS) SAN=thread $(addprefix $(TSAN)/,check run_model callers)
	$(ASAN)/refuse_memory
	$(ASAN_PYTHON) tests/handler/sanitized_chat.py $(ASAN) models/qwarm-demo.gguf
	for build in $(ASAN) $(TSAN); do $$build/check && $$build/callers && \
		PYTHONPATH=. $(PYTHON) tests/engine/emulated.py $$build/run_model || exit 1; done
	@echo 'sanitize: C checks, 3 models and 4 concurrent callers under ASan+UBSan and under TSan, a full chat and' \
		'refused memory under ASan+UBSan: nothing found'

$(BUILD)/_native.abi3.so: $(LIB) engine/native_build.py native/include/qwarm.h $(VENV)
	CC='$(CC) $(SAN_FLAGS)' $(PYTHON) engine/native_build.py $(LIB) $@

SECONDS ?= 60
FUZZ := build/fuzz
fuzz: native  ## damaged models and files for SECONDS (60): half libFuzzer on the C engine, half the GGUF reader
	@$(MAKE) -j$(JOBS) CC=clang-19 SAN=fuzzer-no-link,address,undefined BUILD=$(FUZZ) $(FUZZ)/fuzz_model
	@$(MAKE) build/fuzz-venv/.complete || true
	@PYTHONPATH=. $(PYTHON) tests/fuzz/run.py $(FUZZ)/fuzz_model $(SECONDS)

COUNT ?= 2000
SOAK_MODEL := build/models/synth-tiny-q4_k_m.gguf
soak: native $(SOAK_MODEL)  ## frozen for a minute; COUNT (2000) requests, a third bad or broken off, to one environment
	QWARM_TEST_FROZEN_S=60 $(PYTHON) -m pytest -q tests/handler/test_platform.py -k a77
	PYTHONPATH=. $(PYTHON) bench/soak.py $(SOAK_MODEL) --count $(COUNT)

gate: $(VENV)  ## the arm64 speed gate: cycle model of the inner loops, instructions under qemu
	$(PYTHON) bench/arm64_gate.py --require

# Without the tools of the gate (status 3) the other tests still tell something; CI has them.
test: native  ## all tests; pytest's closing line comes last
	@native/install.sh arm
	@$(MAKE) check
	$(PYTHON) bench/arm64_gate.py $(if $(CI),--require) || test $$? = 3
	@if command -v clang-19 >/dev/null; then $(MAKE) fuzz; else echo 'clang-19 is not installed: no fuzzing'; fi
	$(PYTHON) -m pytest

# instructor needs an older openai than the others, so it has an environment of its own.
CLIENTS := build/clients-venv/.complete build/instructor-venv/.complete build/clients-node/.complete
test-clients: native $(CLIENTS)  ## real OpenAI clients and suites against the server
	build/clients-venv/bin/python -m pytest tests/integration
	build/instructor-venv/bin/python -m pytest tests/integration/test_instructor.py

test-page: native  ## the page in headless Chromium (Debian: chromium, chromium-driver), and its pictures in docs/img
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { echo 'chromium or chromedriver is missing' >&2; exit 1; }
	QWARM_TEST_PAGE=1 $(PYTHON) -m pytest tests/page
	$(PYTHON) -m tests.page.screenshots docs/img

build/%-venv/.complete: requirements/%.txt | build/.tools
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --no-deps --require-hashes -r $<
	touch $@

build/clients-node/.complete: tests/integration/node/package.json tests/integration/node/package-lock.json
	@mkdir -p $(@D)
	cp $^ $(@D)
	npm ci --prefix $(@D) --no-audit --no-fund
	touch $@

# Packages that the service has not heard of were not audited: that is no success.
UNHEARD := audit: nothing was checked, because the advisory service of PyPI does not answer here as on the internet
audit: build/audit-venv/.complete  ## whether a pinned package has a known vulnerability; asks PyPI's advisory service
	@for file in requirements/*.txt; do \
		said=$$(build/audit-venv/bin/pip-audit --progress-spinner off --strict --require-hashes --disable-pip -r $$file 2>&1) \
			&& { echo "$$file: $$said"; continue; }; \
		case "$$said" in *'could not be audited'* | *ConnectionError*) said='$(UNHEARD)' ;; esac; \
		echo "$$said" >&2; exit 1; \
	done

CLANG_FORMAT = $(dir $(PYTHON))clang-format
C_FILES = $(shell find native tests bench -name '*.[ch]')
LINT := build/lint-venv/bin
SCRIPTS = .ci/run $(shell find native tests -name '*.sh')
lint: native tidy build/lint-venv/.complete  ## ruff, mypy, clang-format and -tidy, shellcheck, hadolint, cfn-lint; changes nothing
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	@echo clang-format
	@$(CLANG_FORMAT) --dry-run --Werror $(C_FILES)
	@! grep -nE '^.{121,}' $(C_FILES)
	$(LINT)/hadolint Dockerfile
	$(LINT)/cfn-lint template.yaml
	@PATH="$$PATH:$(LINT)"; command -v shellcheck >/dev/null || { echo 'shellcheck is not installed: skipped'; exit 0; }; \
		set -x; shellcheck -x $(SCRIPTS)

tidy: export CLANG_TIDY := $(LINT)/clang-tidy
tidy: build/lint-venv/.complete  ## clang-tidy on the engine, for this machine and, with a cross compiler, for aarch64
	@echo 'clang-tidy native/src'
	@$(MAKE) --no-print-directory -j$(JOBS) tidy-files
	@$(if $(CAN_CROSS),$(MAKE) --no-print-directory -j$(JOBS) ARCH=aarch64 CC=$(ARM_CC) AR=aarch64-linux-gnu-ar tidy-files)
tidy-files: $(TIDY)

format: $(VENV)  ## what lint asks for, done
	$(PYTHON) -m ruff check --fix-only .
	$(PYTHON) -m ruff format .
	@$(CLANG_FORMAT) -i $(C_FILES)

# --- run ---

build/models/synth-%.gguf: | $(VENV)
	@mkdir -p $(@D)
	$(PYTHON) bench/make_synth.py --size $(word 1,$(subst -, ,$*)) --type $(word 2,$(subst -, ,$*)) $@

# AWS's runtime interface emulator, out of the SAM CLI's wheel: one static program.
RIE := build/rie/aws-lambda-rie
$(RIE): requirements/rie.txt $(VENV)
	@rm -rf $(@D) && mkdir -p $(@D)
	$(PYTHON) -m pip download --quiet --no-deps --require-hashes -r requirements/rie.txt -d $(@D)
	$(PYTHON) -m zipfile -e $(@D)/aws_sam_cli-*.whl $(@D)
	install $(@D)/samcli/local/rapid/aws-lambda-rie-$(subst aarch64,arm64,$(HOST_ARCH)) $@
	rm -rf $(@D)/*.whl $(@D)/samcli* $(@D)/aws_sam_cli*

# An agent's two turns.  What the model in the box says leads to these prefill paths; another model may go elsewhere.
PATHS := $(if $(filter models/qwarm-demo.gguf,$(MODEL)),=full =anchor =extend =turn_anchor)
EVENTS ?= $(join $(patsubst %,events/%.json,chat_tools chat_tools chat_tool_result chat_second_turn),$(PATHS))
run: native $(MODEL) $(RIE)  ## answer recorded events in the real Lambda runtime and print what happened
	$(PYTHON) bench/run_events.py --emulator $(RIE) --model $(MODEL) $(EVENTS)

serve: export QWARM_API_KEY ?= sk-test
serve: native $(MODEL)  ## the same function as a server on 127.0.0.1; the key is QWARM_API_KEY or sk-test
	$(PYTHON) -m handler.local --model $(MODEL) --port $(PORT)

HUB := build/hub-venv/.complete
model:  ## fetch the released Qwen3.5-0.8B Q4_K_M (533 MB) from the Hugging Face hub into models/
	@mkdir -p build
	@$(MAKE) $(HUB) >build/hub-venv.log 2>&1 || { echo 'make model: huggingface_hub cannot be installed, see' \
		'build/hub-venv.log; the demo goes on with the model in the box, models/qwarm-demo.gguf' >&2; exit 1; }
	@build/hub-venv/bin/python -m demo.fetch

golden: native  ## answer the conversations of tests/golden again, on the exact path; tests compare with them
	$(PYTHON) -m tests.golden.transcripts

demo-eval: native  ## 300 held-out conversations with the demo model: calls, values and JSON that are right
	$(PYTHON) -m demo.evaluate

# --- measure ---

BENCH_MODEL ?= build/models/synth-0.8b-q4_k_m.gguf
BENCH_Q8_0 := build/models/synth-0.8b-q8_0.gguf
READER := build/bench/read_bandwidth
REPEAT ?= 5
MEASURE := PYTHONPATH=. $(PYTHON)

bench: native $(BENCH_MODEL) $(READER)  ## our speed on a full-size model, and where the time goes: build/bench/
	$(MEASURE) bench/measure.py $(BENCH_MODEL) --out build/bench
	$(MEASURE) bench/decode_limit.py $(BENCH_MODEL) --reader $(READER) --out build/bench
	$(MEASURE) bench/time_shares.py $(BENCH_MODEL) --out build/bench

$(READER): bench/read_bandwidth.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O3 -march=native -Wall -Wextra -pthread $< -o $@

bench-cold: native $(BENCH_MODEL) $(RIE)  ## the stages of a cold start, with the page cache empty and full
	$(MEASURE) bench/cold.py $(BENCH_MODEL) --emulator $(RIE) --repeat $(REPEAT)

bench-prefix: native $(BENCH_MODEL)  ## what prefix reuse saves: paths and times of agents' request sequences
	$(MEASURE) bench/prefix.py $(BENCH_MODEL)

bench-peers: native $(BENCH_MODEL) $(BENCH_Q8_0) build/peers-venv/.complete  ## ours and the peers' speed, interleaved, as ratios
	@$(MAKE) build/mistral-venv/.complete || true
	$(MEASURE) bench/peers.py $(BENCH_MODEL) $(BENCH_Q8_0) --peer-python build/peers-venv/bin/python --repeat $(REPEAT) \
		--mistral-python build/mistral-venv/bin/python --out build/bench

bench-neighbor: native $(BENCH_MODEL)  ## decode beside a busy loop keeps 60 % of one undisturbed thread
	$(MEASURE) bench/neighbor.py $(BENCH_MODEL) --out build/bench

bench-accuracy: native $(BENCH_MODEL) build/peers-venv/.complete  ## KL of our paths and llama.cpp's against exact arithmetic
	$(MEASURE) bench/accuracy.py $(BENCH_MODEL) --peer-python build/peers-venv/bin/python --out build/bench

# AMX stays off: gcc 12 places its tile configuration wrongly and the program crashes.
NO_AMX := -mno-amx-int8 -mno-amx-tile -mno-amx-bf16
build/peers-venv/.complete: requirements/peers.txt
	python3 -m venv build/peers-venv
	CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF -DCMAKE_C_FLAGS='$(NO_AMX)' \
		-DCMAKE_CXX_FLAGS='$(NO_AMX)'" build/peers-venv/bin/pip install --quiet \
		--no-binary llama-cpp-python --no-deps --require-hashes -r requirements/peers.txt
	touch $@

# --- deploy ---

IMAGE_MODEL ?= models/qwarm-demo.gguf
EVENT ?= events/chat_plain.json
SAM := SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=$${AWS_DEFAULT_REGION:-us-east-1} build/sam-venv/bin/sam
CONTAINERS := set -e; . tests/deploy/containers.sh;

image: $(IMAGE_MODEL)  ## the function's image, for arm64, with docker or podman; IMAGE_MODEL is the model in it
	@$(CONTAINERS) set -x; $$ENGINE build --platform linux/arm64 $$FLAGS --build-arg BASE_IMAGE="$$BASE_IMAGE" \
		--build-arg MODEL=$(IMAGE_MODEL) -t qwarm .

image-parts:  ## how large the image that `make image` made and its parts are, in MB
	@$(CONTAINERS) $$ENGINE run --rm --platform linux/arm64 --user 0 --entrypoint /bin/sh qwarm -c \
		'cd /opt/qwarm && for part in / . * packages/*; do du -sx -B 1000000 $$part; done | sort -rn | head -16'

check-manifest: $(VENV)  ## that IMAGE, a pushed reference, is one image and not an index, which Lambda refuses
	@$(CONTAINERS) $(PYTHON) tests/deploy/manifest.py $$ENGINE '$(IMAGE)'

sam-build: $(IMAGE_MODEL) build/sam-venv/.complete  ## what `sam deploy` and `sam local` use
	@$(CONTAINERS) $(SAM) build --parameter-overrides BaseImage="$$BASE_IMAGE" Model=$(IMAGE_MODEL)

# --env-vars takes only names that template.yaml declares.
build/sam-env.json:
	@echo '{"Parameters": {"QWARM_API_KEY": "sk-test"}}' > $@

invoke: sam-build build/sam-env.json  ## answer EVENT in the image, under `sam local`
	@$(CONTAINERS) $(SAM) local invoke --env-vars build/sam-env.json --event $(EVENT)

start: sam-build build/sam-env.json  ## keep the image running for `aws lambda invoke` at 127.0.0.1:3001
	@$(CONTAINERS) $(SAM) local start-lambda --env-vars build/sam-env.json

validate: build/sam-venv/.complete $(VENV)  ## the template, as SAM, its translator and cfn-lint see it
	$(SAM) validate --lint
	build/sam-venv/bin/cfn-lint template.yaml
	$(PYTHON) -m pytest tests/deploy/test_template.py

test-image: $(IMAGE_MODEL) validate  ## build the image for arm64 and run it; as root on Debian it installs podman
	@tests/deploy/test_image.sh $(PYTHON)

STACK ?= qwarm
deploy: sam-build  ## build, push and deploy the stack of samconfig.toml
	build/sam-venv/bin/sam deploy

logs:  ## follow the deployed function's log
	build/sam-venv/bin/sam logs --stack-name $(STACK) --cw-log-group /qwarm/$(STACK) --tail

report: $(VENV)  ## prefill paths, times and cost of the last day, from the deployed function's log
	@mkdir -p build
	@$(PYTHON) -m handler.report --log-group /qwarm/$(STACK) --png build/prefill.png

clean:  ## remove what was built, not the models or the virtual environments
	rm -rf build/x86_64* build/aarch64* engine/_native*

.DELETE_ON_ERROR:
.PHONY: audit demo-eval golden model help venv native lock check check-isa check-arm test-arm sanitize fuzz soak gate test test-clients test-page lint format run serve clean \
	bench bench-cold bench-prefix bench-peers bench-neighbor bench-accuracy \
	image image-parts check-manifest sam-build invoke start validate test-image deploy logs report
