// SPDX-License-Identifier: Apache-2.0
/*
 * t_sandbox.c - filters: what is let through, what ends the process, and what it says as it ends.
 *
 * A filter is for good, so every case is a child process. It reports by its exit status, and its
 * standard error is caught in a pipe. With WHERRY_SECCOMP=off (sanitizers) the cases that need a
 * filter are skipped.
 */
#include "../cmd/term.h"
#include "../vmm/sandbox.h"
#include "tap.h"
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>

#define UNLISTED 99 /* a child that was not stopped where it should have been */

struct result {
	int status; /* exit status, or 256 + signal */
	char err[1024];
};

static struct result in_child(void (*fn)(void))
{
	struct result r = {0};
	int fds[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	need(!pipe(fds));
	fflush(stdout);
	pid = fork();
	need(pid >= 0);
	if (!pid) {
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		if (sandbox_init() < 0)
			_exit(98);
		fn();
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], r.err + len, sizeof(r.err) - 1 - len)) > 0)
		len += (size_t)n;
	close(fds[0]);
	need(waitpid(pid, &status, 0) == pid);
	r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
	return r;
}

static void enter(const char *name)
{
	if (sandbox_enter(name, NULL, 0) < 0)
		_exit(97);
}

static void enter_with(const struct syscalls *const *sets, unsigned nsets)
{
	if (sandbox_enter("rules", sets, nsets) < 0)
		_exit(97);
}

/* ---- a violation ---- */

static void call_socket(void)
{
	enter("blk0");
	socket(AF_UNIX, SOCK_STREAM, 0);
	_exit(UNLISTED);
}

static void call_socket_blocked(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	call_socket();
}

static void call_nonsense(void)
{
	enter("a-name-longer-than-the-kernel-keeps");
	syscall(4000);
	_exit(UNLISTED);
}

static void say_restored(void)
{
	if (write(STDERR_FILENO, "restored\n", 9) != 9)
		_exit(UNLISTED);
}

static void call_with_hook(void)
{
	sandbox_on_violation(say_restored);
	call_socket();
}

/* What the terminal's owner does on a violation must not be one itself. */
static void restore_terminal(void)
{
	struct termios t = {0};

	tcsetattr(STDERR_FILENO, TCSANOW, &t);
}

static void call_with_terminal(void)
{
	sandbox_on_violation(restore_terminal);
	call_socket();
}

#ifdef __x86_64__
static void call_32bit_freely(void)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20 /* getpid there */) : "memory");
	_exit(UNLISTED);
}

static void call_32bit(void)
{
	enter("int80");
	call_32bit_freely();
}

/* A kernel without the 32-bit ones answers with a signal, filter or not. */
static void test_other_calls(void)
{
	struct result r;

	if (in_child(call_32bit_freely).status != UNLISTED) {
		skip("this kernel has none", "a 32-bit call is a violation");
		return;
	}
	r = in_child(call_32bit);
	ok(r.status == SANDBOX_EXIT && strstr(r.err, "(of another architecture)"),
	   "a 32-bit call is a violation");
}
#endif

static void *enter_and_call(void *arg)
{
	(void)arg;
	call_socket();
	return NULL;
}

static void call_in_thread(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, enter_and_call, NULL))
		_exit(96);
	pthread_join(t, NULL);
	_exit(UNLISTED); /* the process must have gone, not the thread alone */
}

static void test_violation(void)
{
	char line[200];
	struct result r = in_child(call_socket);

	snprintf(line, sizeof(line),
		 "wherry: error: thread blk0: system call %d (socket) is not allowed; ending\n",
		 SYS_socket);
	is(r.status, SANDBOX_EXIT, "a forbidden call ends the process with its own status");
	ok(!strcmp(r.err, line), "and one line names the thread and the call");
	r = in_child(call_socket_blocked);
	ok(r.status == SANDBOX_EXIT && !strcmp(r.err, line),
	   "even if the thread had blocked every signal");
	r = in_child(call_in_thread);
	ok(r.status == SANDBOX_EXIT && !strcmp(r.err, line), "and if it is not the main thread");
	r = in_child(call_nonsense);
	ok(r.status == SANDBOX_EXIT &&
		   strstr(r.err, "thread a-name-longer-t: system call 4000 (unknown) is"),
	   "a call without a name is named by its number");
	r = in_child(call_with_hook);
	ok(r.status == SANDBOX_EXIT && !strncmp(r.err, "restored\nwherry: error: thread blk0", 35),
	   "the hook runs before the line");
	r = in_child(call_with_terminal);
	ok(r.status == SANDBOX_EXIT && !strcmp(r.err, line), "the hook may restore the terminal");
#ifdef __x86_64__
	test_other_calls();
#endif
}

/* ---- the common list ---- */

static void *return_arg(void *arg)
{
	return arg;
}

/* From the thread's cache to 100 KiB: the heap grows, and is trimmed when the last block is freed. */
static void use_heap(void)
{
	void *p[64];

	for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
		p[i] = malloc(100u << (i % 11));
		if (!p[i])
			_exit(95);
		memset(p[i], 1, 100u << (i % 11));
	}
	for (unsigned i = 0; i < ARRAY_LEN(p); i++)
		free(p[i]);
}

/* Blocks with a mapping of their own, moved as they grow. */
static void use_mappings(void)
{
	void *p = malloc(4 << 20), *q = p ? realloc(p, 8 << 20) : NULL;

	if (!q)
		_exit(95);
	free(q);
}

static void *use_libc(void *arg)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int efd = *(int *)arg;
	uint64_t v = 1;
	struct timespec ts;

	enter("worker");
	for (unsigned round = 0; round < 20; round++)
		use_heap();
	use_mappings();
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	sched_yield();
	pthread_setname_np(pthread_self(), "renamed");
	if (write(efd, &v, 8) != 8 || read(efd, &v, 8) != 8 || close(efd))
		_exit(94);
	return arg;
}

static void threads_live(void)
{
	pthread_t t[12]; /* more than malloc's eight arenas, if it had them */
	int efd[12];

	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		efd[i] = eventfd(0, 0);
		if (pthread_create(&t[i], NULL, use_libc, &efd[i]))
			_exit(96);
	}
	enter("main");
	for (unsigned i = 0; i < ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
}

static void call_assert(void)
{
	enter("broken");
	assert(getpid() == 0);
}

static void map_exec(void)
{
	enter("mmap");
	if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	    MAP_FAILED)
		_exit(95);
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	_exit(UNLISTED);
}

static void protect_exec(void)
{
	void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	enter("mprotect");
	if (mprotect(p, 4096, PROT_READ | PROT_WRITE))
		_exit(95);
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	_exit(UNLISTED);
}

static void create_thread(void)
{
	pthread_t t;

	/* The first one makes glibc install its own signal handlers, which would be a violation
	 * too. */
	if (pthread_create(&t, NULL, return_arg, NULL) || pthread_join(t, NULL))
		_exit(96);
	enter("spawner");
	pthread_create(&t, NULL, return_arg, NULL);
	_exit(UNLISTED);
}

static void open_file(void)
{
	enter("opener");
	open("/dev/null", O_RDONLY);
	_exit(UNLISTED);
}

/* Our threads may signal each other (kicks, abort()), and as root could signal anyone. */
static void signal_parent(void)
{
	pid_t parent = getppid();

	enter("killer");
	syscall(SYS_tgkill, parent, parent, 0);
	_exit(UNLISTED);
}

static void crash(void)
{
	sigaction(SIGSEGV,
		  &(struct sigaction){.sa_handler = term_die, .sa_flags = (int)SA_RESETHAND}, NULL);
	enter("crash");
	syscall(SYS_tgkill, getpid(), gettid(), SIGSEGV);
	_exit(UNLISTED);
}

static void prctl_other(void)
{
	enter("prctl");
	prctl(PR_SET_DUMPABLE, 1);
	_exit(UNLISTED);
}

static void test_common(void)
{
	struct result r = in_child(threads_live);

	is(r.status, 0, "twelve filtered threads allocate, lock, signal eventfds and end");
	ok(!r.err[0], "without a word (%.100s)", r.err);
	r = in_child(call_assert);
	ok(r.status == 256 + SIGABRT && strstr(r.err, "Assertion"),
	   "a failed assertion says so and aborts");
	r = in_child(map_exec);
	ok(r.status == SANDBOX_EXIT && strstr(r.err, "(mmap)"),
	   "memory can be mapped, but not executable");
	r = in_child(protect_exec);
	ok(r.status == SANDBOX_EXIT && strstr(r.err, "(mprotect)"), "nor made executable");
	/* glibc blocks every signal around clone3, so the kernel ends the process instead of the
	 * handler. */
	is(in_child(create_thread).status, 256 + SIGSYS, "a thread cannot be made");
	r = in_child(open_file);
	ok(r.status == SANDBOX_EXIT && strstr(r.err, "(openat)"), "a file cannot be opened");
	r = in_child(signal_parent);
	ok(r.status == SANDBOX_EXIT && strstr(r.err, "(tgkill)"),
	   "a thread of another process cannot be signalled");
	is(in_child(crash).status, 256 + SIGSEGV,
	   "a thread that crashes gives the terminal back and dies of its own signal");
	r = in_child(prctl_other);
	ok(r.status == SANDBOX_EXIT && strstr(r.err, "(prctl)"),
	   "of prctl only the names are allowed");
}

/* ---- rules of a set ---- */

static const struct syscall_rule plain_rules[] = {
	{.nr = SYS_socket, .why = "test"},
	{.nr = SYS_read, .why = "test: in the common list too"},
};
static const struct syscall_rule masked_rules[] = {
	{.nr = SYS_socket,
	 .why = "test",
	 .masked = true,
	 .arg = 0,
	 .mask = 0xffffffff,
	 .value = AF_UNIX},
	{.nr = SYS_fcntl,
	 .why = "test",
	 .masked = true,
	 .arg = 1,
	 .mask = 0xffffffff,
	 .value = F_GETFD},
	{.nr = SYS_fcntl,
	 .why = "test",
	 .masked = true,
	 .arg = 1,
	 .mask = 0xffffffff,
	 .value = F_GETFL},
	{.nr = SYS_fcntl,
	 .why = "test: twice",
	 .masked = true,
	 .arg = 1,
	 .mask = 0xffffffff,
	 .value = F_GETFL},
};
static const struct syscalls plain = SYSCALLS(plain_rules), masked = SYSCALLS(masked_rules);

static void call_masked_good(void)
{
	const struct syscalls *const sets[] = {&masked};

	enter_with(sets, 1);
	if (fcntl(0, F_GETFD) < 0 || fcntl(0, F_GETFL) < 0)
		_exit(95);
	if (socket(AF_UNIX, SOCK_STREAM, 0) < 0)
		_exit(94);
}

static void call_masked_bad(void)
{
	const struct syscalls *const sets[] = {&masked};

	enter_with(sets, 1);
	fcntl(0, F_DUPFD, 0);
	_exit(UNLISTED);
}

static void call_plain_after_masked(void)
{
	const struct syscalls *const sets[] = {&masked, &plain};

	enter_with(sets, 2);
	if (socket(AF_INET, SOCK_STREAM, 0) < 0 || socket(AF_UNIX, SOCK_STREAM, 0) < 0)
		_exit(95);
}

static void call_plain_before_masked(void)
{
	const struct syscalls *const sets[] = {&plain, &masked, &plain};

	enter_with(sets, 3);
	if (socket(AF_INET, SOCK_STREAM, 0) < 0 || socket(AF_UNIX, SOCK_STREAM, 0) < 0)
		_exit(95);
}

static const struct syscall_rule exec_rules[] = {{.nr = SYS_mmap, .why = "test"}};
static const struct syscalls exec_set = SYSCALLS(exec_rules);

static void call_plain_over_common(void)
{
	const struct syscalls *const sets[] = {&exec_set};

	enter_with(sets, 1);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	    MAP_FAILED)
		_exit(95);
}

static void test_sets(void)
{
	struct result r;

	is(in_child(call_masked_good).status, 0, "a masked rule lets its values through");
	r = in_child(call_masked_bad);
	ok(r.status == SANDBOX_EXIT && strstr(r.err, "thread rules: ") && strstr(r.err, "(fcntl)"),
	   "and no other value");
	is(in_child(call_plain_after_masked).status, 0, "a plain rule after a masked one wins");
	is(in_child(call_plain_before_masked).status, 0,
	   "a plain rule before a masked one wins, and may be repeated");
	is(in_child(call_plain_over_common).status, 0,
	   "a plain rule wins over the common list's masked one");
}

/* ---- who is filtered ---- */

static void *enter_and_wait(void *arg)
{
	pthread_barrier_t *b = arg;

	enter("filtered");
	pthread_barrier_wait(b);
	pthread_barrier_wait(b);
	return NULL;
}

static void other_thread_free(void)
{
	pthread_barrier_t b;
	pthread_t t;

	pthread_barrier_init(&b, NULL, 2);
	if (pthread_create(&t, NULL, enter_and_wait, &b))
		_exit(96);
	pthread_barrier_wait(&b);
	if (socket(AF_UNIX, SOCK_STREAM, 0) < 0)
		_exit(95);
	pthread_barrier_wait(&b);
	pthread_join(t, NULL);
}

static void check_comm_unfiltered(void)
{
	char name[16];

	enter("fs0");
	if (socket(AF_UNIX, SOCK_STREAM, 0) < 0)
		_exit(95);
	if (prctl(PR_GET_NAME, name) || strcmp(name, "fs0"))
		_exit(94);
}

static void enter_disabled(void)
{
	sandbox_disable();
	check_comm_unfiltered();
}

static void enter_off(void)
{
	setenv("WHERRY_SECCOMP", "off", 1);
	check_comm_unfiltered();
}

static void no_new_privs(void)
{
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		_exit(95);
}

static void stray_signal(void)
{
	raise(SIGSYS);
}

int main(void)
{
	const char *env = getenv("WHERRY_SECCOMP");

	is(in_child(enter_disabled).status, 0, "a disabled sandbox sets the name and no filter");
	is(in_child(enter_off).status, 0, "so does WHERRY_SECCOMP=off");
	is(in_child(no_new_privs).status, 0, "the process cannot gain privileges");
	is(in_child(stray_signal).status, 0,
	   "a SIGSYS from elsewhere is not taken for a violation");
	if (env && !strcmp(env, "off")) {
		skip("WHERRY_SECCOMP=off", "filters");
		return done();
	}
	test_violation();
	test_common();
	test_sets();
	is(in_child(other_thread_free).status, 0, "a thread that did not enter is not filtered");
	return done();
}
