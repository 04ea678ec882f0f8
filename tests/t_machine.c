// SPDX-License-Identifier: Apache-2.0
/*
 * t_machine.c - what the main thread does while a machine runs: it waits, for a signal that ends the machine or for one
 * that has its devices look again, and it does that behind its filter. Includes the recipe for its static parts; a
 * machine without KVM and without vCPUs is put together by hand.
 *
 * Masks and filters are for good, so every case is a child process; what it saw is in memory that it shares. Nothing is
 * timed: signals that are pending are read lowest number first, SIGUSR1 (10) before SIGTERM (15).
 */
#include "../cmd/machine.c"
#include "../devices/table.h"
#include "blk_rig.h"
#include <sys/mman.h>
#include <sys/wait.h>

_Static_assert(SIGHUP < SIGUSR1 && SIGUSR1 < SIGTERM, "the order in which they are read");

#define NDEVICES 3

/* Of the child that ran last. */
struct seen {
	int status; /* exit status, or 256 + signal */
	struct machine_end end;
	unsigned refreshed[NDEVICES];
	unsigned handled; /* signals that came in the tear-down */
	uint64_t capacity;
	uint32_t generation;
	unsigned interrupts;
};
static struct seen *seen;

static void in_child(void (*fn)(void))
{
	int status;
	pid_t pid;

	memset(seen, 0, sizeof(*seen));
	fflush(stdout);
	pid = fork();
	need(pid >= 0);
	if (!pid) {
		/* Who runs the tests in the background may have some ignored, which a machine would heed. */
		for (int sig = SIGHUP; sig <= SIGTERM; sig++)
			(void)signal(sig, SIG_DFL);
		if (sandbox_init())
			_exit(99);
		fn();
		_exit(0);
	}
	need(waitpid(pid, &status, 0) == pid);
	seen->status = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static bool ended_by(int sig)
{
	return !seen->status && seen->end.why == VM_USER && seen->end.signal == sig;
}

/* ---- devices that count ---- */

static struct device devices[NDEVICES];

static int count(struct device *d)
{
	return (int)++seen->refreshed[d - devices];
}

static int refuse(struct device *d)
{
	count(d);
	return -EIO;
}

static int again(struct device *d)
{
	raise(count(d) < 3 ? SIGUSR1 : SIGTERM);
	return 0;
}

static int look(struct device *d)
{
	count(d);
	return 0;
}

/* The first has nothing to look at, the second cannot. */
static struct machine machine_of(int (*last)(struct device *))
{
	devices[0].next = &devices[1];
	devices[1] = (struct device){.next = &devices[2], .refresh = refuse};
	devices[2] = (struct device){.refresh = last};
	return (struct machine){.vm = fg_create(MIB(16))->vm, .devices = devices, .signal_fd = -1};
}

static void count_handled(int sig)
{
	(void)sig;
	seen->handled++;
}

/* ---- signals ---- */

/* The first comes before anybody waits, as to a machine that is still being made. */
static void child_refresh(void)
{
	struct machine m = machine_of(again);

	need(!block_signals(&m));
	raise(SIGUSR1);
	machine_wait(&m, 10, &seen->end);
}

static void t_refresh(void)
{
	in_child(child_refresh);
	ok(ended_by(SIGTERM),
	   "SIGUSR1 ends no machine, neither a running one nor one in the making");
	is(seen->refreshed[2], 3, "each time a device is asked to look again");
	is(seen->refreshed[1], 3, "and each of them: one that cannot does not keep others from it");
	is(seen->refreshed[0], 0, "but what has nothing to look at");
}

static void child_limit(void)
{
	struct machine m = machine_of(look);

	need(!block_signals(&m));
	raise(SIGUSR1);
	machine_wait(&m, 1, &seen->end);
}

static void t_limit(void)
{
	in_child(child_limit);
	ok(!seen->status && seen->end.why == VM_TIMEOUT && !seen->end.signal,
	   "nor does it lift the time limit");
	is(seen->refreshed[2], 1, "before which it is heard");
}

/* A signal that is blocked is kept for the descriptor even if it is ignored: it must not be asked for. */
static void child_ignored(void)
{
	struct machine m = machine_of(look);

	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	need(!block_signals(&m));
	raise(SIGHUP);
	raise(SIGUSR1);
	raise(SIGTERM);
	machine_wait(&m, 0, &seen->end);
}

static void t_ignored(void)
{
	in_child(child_ignored);
	ok(ended_by(SIGTERM), "a signal that was ignored does not end the machine");
	is(seen->refreshed[2], 0, "nor has it devices look again");
}

static void child_tear_down(void)
{
	struct machine m = machine_of(look);

	need(!block_signals(&m));
	raise(SIGTERM);
	machine_wait(&m, 0, &seen->end);
	machine_die_on_signal(count_handled);
	raise(SIGUSR1);
	raise(SIGINT);
}

static void t_tear_down(void)
{
	in_child(child_tear_down);
	ok(ended_by(SIGTERM) && seen->handled == 1,
	   "in the tear-down a signal to end is heard, SIGUSR1 does nothing");
	is(seen->refreshed[2], 0, "and no device looks at anything any more");
}

/* ---- a drive, behind the filter ---- */

/* What was done to the file is found at the signal, with no more calls than the filter lets through. */
static void disk_waits(off_t len)
{
	const struct syscalls *sets[] = {&main_syscalls};
	struct machine m = {.signal_fd = -1};

	rig_begin();
	open_disk(PLAIN, FLUSH);
	need(!unlink(path) && !ftruncate(file, len));
	m.vm = fg->vm;
	m.devices = drive;
	need(!block_signals(&m));
	raise(SIGUSR1);
	raise(SIGTERM);
	need(!sandbox_enter("wherry", sets, ARRAY_LEN(sets)));
	machine_wait(&m, 0, &seen->end);
	seen->capacity = le64toh(config_space().capacity);
	seen->generation = virtio_config_generation(fg->dev);
	seen->interrupts = __atomic_load_n(&fg->irq_config, __ATOMIC_RELAXED);
}

static void child_grown(void)
{
	disk_waits(2 * DISK_LEN);
}

static void child_same(void)
{
	disk_waits(DISK_LEN);
}

static void child_empty(void)
{
	disk_waits(0);
}

static void t_disk(void)
{
	in_child(child_grown);
	ok(ended_by(SIGTERM), "behind main's filter a drive may look at its file");
	is(seen->capacity, 2 * DISK_LEN / 512, "which has grown: the guest can see it");
	ok(seen->generation == 1 && seen->interrupts == 1, "and is told");
	in_child(child_same);
	ok(ended_by(SIGTERM) && seen->capacity == DISK_LEN / 512, "a file that is as it was");
	ok(!seen->generation && !seen->interrupts, "is no news");
	in_child(child_empty);
	ok(ended_by(SIGTERM) && seen->capacity == DISK_LEN / 512 && !seen->interrupts,
	   "a file that is empty now is an error that is told to the host alone");
}

/* What the drives above show is worth nothing if there is no filter. */
static void child_filter(void)
{
	const struct syscalls *sets[] = {&main_syscalls};

	need(!sandbox_enter("wherry", sets, ARRAY_LEN(sets)));
	(void)!ftruncate(-1, 0);
}

static void t_filter(void)
{
	const char *off = getenv("WHERRY_SECCOMP");

	if (off && !strcmp(off, "off")) {
		skip("WHERRY_SECCOMP=off", "a call that main does not need ends the process");
		return;
	}
	in_child(child_filter);
	is(seen->status, SANDBOX_EXIT, "a call that main does not need ends the process");
}

int main(void)
{
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(seen != MAP_FAILED);
	t_refresh();
	t_limit();
	t_ignored();
	t_tear_down();
	t_disk();
	t_filter();
	return done();
}
