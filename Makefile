# statebus: everything that a person types, from a fresh clone on a bare Debian 12. `make` lists it.
# The build itself is meson's: build/ is what is installed, build-faults/ has the seeded faults in it (for tests),
# build-asan/ the address and undefined-behaviour sanitizers.

PACKAGES = gcc libc6-dev meson ninja-build pkg-config python3 \
           libck-dev libfuse3-dev liblmdb-dev libmimalloc-dev libsystemd-dev liburing-dev libuv1-dev libxxhash-dev libzydis-dev \
           e2fsprogs mandoc valgrind

FUZZ_PACKAGES = clang libclang-rt-dev

# Contenders. Redis' server lies in its tools, so no service of the system's is set up.
BENCH_PACKAGES = libhiredis-dev librocksdb-dev libsqlite3-dev redis-tools

DIR =
PREFIX = /usr/local
LIBDIR = lib
DESTDIR =
ONLY =
COUNT = 30
SEED =
SECONDS = 60

FAULTS = -Dfaults=true
ASAN = -Db_sanitize=address,undefined -Doptimization=1

.DEFAULT_GOAL = help
.PHONY: help deps build build-faults build-asan tested test test-long mutants coverage fuzz demo bench install format tags \
	compile-commands clean

help:
	@echo 'make test        build, then the whole quick test suite; its last line counts (ONLY=word: some programs)'
	@echo 'make test-long   the same with larger numbers, and what takes too long for every day'
	@echo 'make mutants     change lines, one at a time, and ask whether the tests notice (COUNT=30, SEED=)'
	@echo 'make coverage    which lines does no test execute, and which branches go one way only (ONLY=word: of some programs)'
	@echo 'make fuzz        any bytes for what reads the log and dumps, by libFuzzer (SECONDS=60 each, ONLY=log)'
	@echo 'make demo        a crew of processes at work on real input, killed at random (DIR=a folder with C headers)'
	@echo 'make bench       speeds, against the ideal access, a locked table, LMDB, RocksDB, SQLite, Redis, and FASTER where it is'
	@echo 'make build       build/agentd/agentd, build/cli/agentctl, build/libclient/libstatebus.so and .a'
	@echo 'make install     into PREFIX=$(PREFIX), libraries into LIBDIR=$(LIBDIR) below it'
	@echo 'make deps        install the Debian packages that are missing (the others do it too)'
	@echo 'make format      write the C files as clang-format does (tests/tidy asks for it)'
	@echo 'make tags        an index of names for editors, by universal-ctags'
	@echo 'make compile-commands   compile_commands.json, for clangd and its like'
	@echo 'make clean       remove the build trees'

# Says what it installs before it does; says nothing when nothing is missing.
deps:
	@tests/deps $(PACKAGES)

build: deps
	@tests/build build
build-faults: deps
	@tests/build build-faults $(FAULTS)
build-asan: deps
	@tests/build build-asan $(ASAN)

# Of the second and third tree, what their suites run: of the rest, a third copy tells nothing.
tested: build
	@tests/build build-faults:faults $(FAULTS)
	@tests/build build-asan:asan $(ASAN)

test: tested
	@tests/run --only '$(ONLY)' build:quick build-faults:faults build-asan:asan

test-long: tested
	@tests/build build-asan:asan-long $(ASAN)
	@tests/run --long --only '$(ONLY)' build:quick build-faults:faults build-asan:asan,asan-long

mutants: deps
	@tests/mutants/mutants --count $(COUNT) $(if $(SEED),--seed $(SEED))

# Lines and branches are the source's: compilers that optimize join some.
coverage: deps
	@tests/build build-coverage:quick -Db_coverage=true -Doptimization=1
	@tests/coverage/coverage --lines $(if $(ONLY),--only '$(ONLY)') build-coverage

# By clang's libFuzzer; what it finds first, tests/fuzz/corpus-* have.
fuzz: deps
	@tests/deps $(FUZZ_PACKAGES)
	@tests/fuzz/run --seconds $(SECONDS) $(if $(ONLY),--only '$(ONLY)')

# What it runs: the tests' programs are not for it.
demo: deps
	@tests/build build=agentd/agentd,cli/agentctl,docs/examples/demo
	@PATH="$(CURDIR)/build/agentd:$(CURDIR)/build/cli:$$PATH" build/docs/examples/demo $(if $(DIR),"$(patsubst ~%,$(HOME)%,$(DIR))")

bench: deps
	@tests/deps $(BENCH_PACKAGES)
	@tests/build build
	@PATH="$(CURDIR)/build/agentd:$(CURDIR)/build/cli:$$PATH" bench/run build

# A build takes minutes: what cannot be installed is not built first.
install:
	@tests/writable '$(DESTDIR)$(abspath $(PREFIX))' bin include '$(LIBDIR)' lib share
	@$(MAKE) --no-print-directory build
	@meson configure build --prefix '$(abspath $(PREFIX))' --libdir '$(LIBDIR)'
	@DESTDIR='$(DESTDIR)' meson install -C build

# The public header is laid out by hand: its comments stand in columns.
format: deps
	@git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cc' ':!libclient/statebus.h' | xargs clang-format -i

tags:
	@ctags --version 2>/dev/null | grep -q Universal || \
		{ echo 'make tags needs universal-ctags (Debian: apt-get install universal-ctags)' >&2; exit 1; }
	@git ls-files -- '*.c' '*.h' '*.cc' | ctags --languages=C,C++ --c-kinds=+px -L -

# Meson writes the file; editors look for it here. Files that tests compile once more stand in it several times.
compile-commands: deps
	@[ -f build/build.ninja ] || meson setup build >/dev/null
	@ln -sf build/compile_commands.json compile_commands.json

clean:
	rm -rf build build-faults build-asan build-coverage build-fuzz build-mutants
