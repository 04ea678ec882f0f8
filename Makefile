# wherry: `make try` shows it working, `make check` tests all of it. V=1 shows commands, DEBUG=1 builds for a debugger.
CC	?= gcc
ifeq ($(origin CC),default)
CC	= gcc
endif
O	?= build/$(if $(DEBUG),debug,release)
PKGS	:= libseccomp liburing json-c
WARN	:= -Wall -Wextra -Wshadow -Wundef -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings \
	   -Wformat=2 -Wimplicit-fallthrough -Wconversion -Wno-sign-conversion -Werror
ISGCC	:= $(if $(findstring clang,$(CC)),,1)
HARDEN	:= -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection -fcf-protection -fPIE \
	   $(if $(ISGCC),-ftrivial-auto-var-init=zero)
OPT	:= $(if $(SAN),-O1 -fno-omit-frame-pointer -fsanitize=$(SAN) -fno-sanitize-recover=all,$(if $(DEBUG),-Og,-O2 $(HARDEN)))
CFLAGS	?= -g
ALLFLAGS = -std=gnu17 -D_GNU_SOURCE -I$(O) $(WARN) $(if $(ISGCC),,-Wconditional-uninitialized) $(OPT) $(CFLAGS)
LDFLAGS	+= $(if $(SAN),-fsanitize=$(SAN),-pie -Wl,-z,relro,-z,now)
LDLIBS	= $(shell pkg-config --libs $(PKGS)) -lpthread

SRC	:= $(wildcard vmm/*.c devices/*.c cmd/*.c)
OBJ	:= $(SRC:%.c=$(O)/%.o)
LIBOBJ	:= $(filter-out $(O)/cmd/main.o,$(OBJ))
SUITE	:= $(wildcard tests/fs_suite/*.c)
UNIT	:= $(patsubst tests/%.c,%,$(wildcard tests/t_*.c))
FUZZ	:= $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
# Not every folder: O may be one.
C_FILES := $(foreach d,vmm devices cmd tests tests/fs_suite tests/fuzz tests/bench tests/bench/lab guest guest/fssuite guest/payload guest/module,$(wildcard $d/*.[ch]))
Q	:= $(if $(V),,@)
SHELL	:= /bin/bash

# Compared, not dated: a release build after a debug build is older and still the one that was asked for.
wherry: $(O)/wherry force
	$(Q)cmp -s $< $@ || cp -f $< $@
force:

$(O)/wherry: $(OBJ)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(O)/%.o: %.c $(O)/syscall_names.h Makefile
	@echo "  CC    $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALLFLAGS) -MMD -MP -c -o $@ $<

# The names of this architecture's system calls, for the line that a violated filter leaves behind.
$(O)/syscall_names.h:
	@mkdir -p $(@D)
	$(Q)echo '#include <sys/syscall.h>' | $(CC) -E -dM -xc - | \
		sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9]*\)$$/[\2] = "\1",/p' > $@.tmp && mv $@.tmp $@

$(O)/libwherry.a: $(LIBOBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

$(UNIT:%=$(O)/tests/%): $(O)/tests/%: $(O)/tests/%.o $(O)/tests/fakeguest.o $(O)/libwherry.a
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS)
# One suite, a program per door.
$(O)/tests/t_suite_share $(O)/tests/t_suite_fuse $(O)/tests/t_suite_p9: $(SUITE:%.c=$(O)/%.o)

# ---- the two commands of the README -------------------------------------------------------------

# Boots Debian's kernel with a host directory and a disk inside.
try:
	$(Q)tests/deps.sh try
	$(Q)$(MAKE) -j$(shell nproc) --no-print-directory wherry
	$(Q)tests/try.sh

# Every level there is; closes with "N passed, N failed, N skipped".
check: deps
	$(Q)tests/check.sh

# ---- levels and tools ---------------------------------------------------------------------------

deps:
	$(Q)tests/deps.sh

unit-programs: $(UNIT:%=$(O)/tests/%)
check-unit: unit-programs
	$(Q)tests/run.sh $(UNIT:%=$(O)/tests/%) tests/check-fssuite.sh
san-programs:
	$(Q)$(MAKE) --no-print-directory O=build/asan SAN=address,undefined unit-programs
	$(Q)$(MAKE) --no-print-directory O=build/tsan SAN=thread $(TSAN_UNIT:%=build/tsan/tests/%)
check-san: san-programs
	$(Q)WHERRY_SECCOMP=off tests/run.sh $(UNIT:%=build/asan/tests/%) $(TSAN_UNIT:%=build/tsan/tests/%)
# Threads meet in these; the others have one.
TSAN_UNIT := t_rate t_bus t_log t_loop t_loop_timer t_virtio t_blk t_blk_live t_disk t_disk_flush t_disk_direct t_disk_range t_serial t_irq t_vm t_vcpu t_share t_share_lock t_virtio_fs t_fuse t_storm t_threads t_window t_dax t_dax_change t_fuse_dax t_loop_poll t_fuse_lock t_fuse_threads t_fuse_siege t_suite_share t_suite_fuse t_suite_p9 t_p9_lock t_p9_flush t_p9_siege t_virtio_9p
check-cli: wherry payload
	$(Q)tests/run.sh tests/check-cli.sh
check-kvm: wherry payload
	$(Q)tests/run.sh tests/check-kvm.sh tests/check-term.sh
check-guest: wherry
	$(Q)tests/run.sh tests/check-guest.sh
# Not part of check: an hour; goes on where it was stopped.
check-guest-long: wherry
	$(Q)tests/deps.sh long
	$(Q)tests/run.sh tests/check-guest-long.sh
payload:
	$(Q)$(MAKE) --no-print-directory -C guest/payload O=../../build/payload
# Figures are ratios within one run; see the head of each script.
bench: wherry payload
	$(Q)tests/bench.sh
bench-lab: wherry
	$(Q)tests/bench-lab.sh

fuzz: fuzz-programs
	$(Q)tests/fuzz.sh $(FUZZ:%=build/fuzz/%)
fuzz-programs:
	$(Q)$(MAKE) --no-print-directory CC=clang O=build/fuzz SAN=fuzzer-no-link,address,undefined $(FUZZ:%=build/fuzz/%)
$(FUZZ:%=$(O)/%): $(O)/%: $(O)/tests/fuzz/%.o $(O)/tests/fakeguest.o $(O)/libwherry.a
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

# The arrows of ARCHITECTURE.md, proven by grep.
layers:
	$(Q)tests/layers.sh
format:
	$(Q)clang-format -i $(C_FILES)
format-check:
	$(Q)clang-format --dry-run -Werror $(C_FILES)
tidy:
	$(Q)printf '%s\n' $(SRC) | xargs -P $(shell nproc) -I{} clang-tidy --quiet --warnings-as-errors='*' \
		--checks='$(TIDY)' {} -- -std=gnu17 -D_GNU_SOURCE -I$(O) 2>&1 | grep -v 'warnings\? generated' >&2; \
		test $${PIPESTATUS[1]} -eq 0
	$(Q)cppcheck --quiet --error-exitcode=1 --inline-suppr --enable=warning,portability --suppress=missingInclude \
		--suppress=memleak --suppress=uninitvar --suppress=syntaxError -I$(O) $(SRC)
# Left out: style we do not share (strcmp as a condition), and what does not know the cleanup attribute (unix.Malloc, memleak;
# the sanitizers see real leaks).
empty :=
TIDY	:= $(subst $(empty) ,,-*,bugprone-*,clang-analyzer-*,-bugprone-easily-swappable-parameters,\
	   -bugprone-reserved-identifier,-bugprone-macro-parentheses,-bugprone-narrowing-conversions,\
	   -bugprone-assignment-in-if-condition,-bugprone-suspicious-string-compare,-bugprone-sizeof-expression,\
	   -bugprone-implicit-widening-of-multiplication-result,-bugprone-not-null-terminated-result,\
	   -bugprone-signal-handler,-clang-analyzer-security.insecureAPI.*,-clang-analyzer-unix.Malloc)
both-compilers:
	$(Q)$(MAKE) --no-print-directory CC=clang O=build/clang build/clang/wherry
	$(Q)$(MAKE) --no-print-directory CC=gcc O=build/release build/release/wherry

clean:
	rm -rf build/release build/debug build/asan build/tsan build/clang build/fuzz build/payload wherry
distclean:
	rm -rf build wherry

.PHONY: try check deps unit-programs check-unit san-programs check-san check-cli check-kvm check-guest check-guest-long payload bench bench-lab \
	fuzz fuzz-programs layers format force format-check tidy both-compilers clean distclean
-include $(OBJ:.o=.d) $(UNIT:%=$(O)/tests/%.d) $(FUZZ:%=$(O)/tests/fuzz/%.d) $(O)/tests/fakeguest.d $(SUITE:%.c=$(O)/%.d)
