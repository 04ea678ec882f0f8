// SPDX-License-Identifier: Apache-2.0
/*
 * t_window.c - windows: where they may lie, what is mapped in them, and that a page which is not there ends nothing.
 *
 * The guests are of a few instructions, once as they start and once in ring 3: there KVM_RUN fails where a page is gone,
 * while a KVM that emulates ring 0 makes an access by exit of it. Includes the vCPUs to set their registers. Hard cases A6,
 * A25, C4, D67, J11.
 */
#include "../vmm/vcpu.c"
#include "../vmm/window_int.h"
#include "tap.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define WAIT_MS 10000

static size_t page;
static int log_fd; /* what was written to standard error; emptied by said() */

/* ---- what was logged ---- */

static void log_catch(void)
{
	log_fd = memfd_create("log", MFD_CLOEXEC);
	need(log_fd >= 0 && dup2(log_fd, STDERR_FILENO) == STDERR_FILENO);
}

/* How many lines have these words since the last call. */
static unsigned said(const char *words)
{
	char text[8192] = "";
	unsigned n = 0;

	need(pread(log_fd, text, sizeof(text) - 1, 0) >= 0);
	for (const char *p = text; (p = strstr(p, words)); p++)
		n++;
	need(!ftruncate(log_fd, 0) && lseek(log_fd, 0, SEEK_SET) == 0);
	return n;
}

#define ANY     "wherry: "
#define TOUCHED "used as a buffer"
#define SHORT   "cut short on the host"

/* ---- parts ---- */

static struct vm *bare(void)
{
	const struct vm_params params = {.mem_size = MIB(4), .pages = MEM_PAGES_SMALL, .ncpus = 1};
	struct vm *vm;

	need(!vm_create_bare(&vm, &params));
	return vm;
}

static struct window *window(struct vm *vm, uint64_t size)
{
	struct window *w = NULL;

	need(!window_create(&w, vm, "test", size));
	return w;
}

/* A file of n pages, each full of its letter: a, b ... */
static int file_of(size_t n)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	need(fd >= 0 && !ftruncate(fd, (off_t)(n * page)));
	for (size_t i = 0; i < n; i++) {
		char buf[16];

		memset(buf, 'a' + (int)(i % 26), sizeof(buf));
		need(pwrite(fd, buf, sizeof(buf), (off_t)(i * page)) == sizeof(buf));
	}
	return fd;
}

/* n pages of the file from its first at page first of the window. */
static bool map_pages(struct window *w, size_t first, size_t n, int fd, int prot)
{
	void *at = window_hold(w, first * page, n * page);

	if (!at)
		return false;
	need(mmap(at, n * page, prot, MAP_SHARED | MAP_FIXED, fd, 0) == at);
	window_mapped(w, first * page, n * page, true);
	return true;
}

/* A page as a copy of ours finds it; volatile, or the compiler would make no access of it. */
static char look(struct window *w, size_t i)
{
	return *(volatile char *)(w->host + i * page);
}

static void poke(struct window *w, size_t i, char c)
{
	*(volatile char *)(w->host + i * page) = c;
}

/* Whether a system call may read it. */
static bool is_there(struct window *w, size_t i)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC), pair[2];
	ssize_t n;

	/* /dev/null does not look at what it is given. */
	close(null);
	need(!pipe(pair));
	n = write(pair[1], w->host + i * page, 1);
	need(n == 1 || errno == EFAULT);
	close(pair[0]);
	close(pair[1]);
	return n == 1;
}

static unsigned mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned n = 0;

	need(f);
	for (int c; (c = fgetc(f)) != EOF;)
		n += c == '\n';
	fclose(f);
	return n;
}

/* ---- where it lies ---- */

static void t_sizes(void)
{
	static const uint64_t bad[] = {0,          1,        KIB(4),     MIB(1),    MIB(3),
				       MIB(2) + 1, GIB(128), UINT64_MAX, 1ull << 63};
	struct vm *vm = bare();
	struct window *w = NULL;
	unsigned refused = 0;

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		refused += window_create(&w, vm, "test", bad[i]) == -EINVAL;
	is(refused, ARRAY_LEN(bad), "a size that is no power of two from 2 MiB on is refused");
	is(said("must be a power of two"), ARRAY_LEN(bad), "and said");
	ok(!w && !vm->mem->windows, "with nothing made");
	w = window(vm, MIB(2));
	ok(IS_ALIGNED((uintptr_t)w->host, MIB(2)) && w->base == 0,
	   "a window begins at a huge page of the host, and nowhere in the guest");
	ok(!is_there(w, 0) && !is_there(w, MIB(2) / page - 1), "nothing of it is accessible");
	window_destroy(w);
	ok(!vm->mem->windows, "it leaves");
	window_destroy(NULL);
	vm_destroy(vm);
}

static void t_place(void)
{
	struct vm *vm = bare();
	struct window *w = window(vm, MIB(2)), *v = window(vm, MIB(4));
	uint64_t a = GIB(4), b = GIB(5);

	ok(w->slot != v->slot && w->slot >= MEM_REGIONS && v->slot >= MEM_REGIONS,
	   "each has a memory slot of its own, none of RAM's");
	is(window_place(w, a + KIB(4)), -EINVAL, "an address that is not aligned is refused");
	is(window_place(w, UINT64_MAX - MIB(2) + 1), -EINVAL, "so is one where it would wrap");
	is(window_place(w, MIB(2)), -EEXIST, "so is one over RAM");
	is(window_place(w, 0), 0, "nowhere is always possible");
	is(window_place(w, a), 0, "a free place is taken");
	is(window_place(v, a), -EEXIST, "not by two");
	is(window_place(v, a - MIB(2)), -EEXIST, "not even in part");
	is(window_place(v, a + MIB(2)), 0, "side by side they may lie");
	ok(mem_buffer(vm->mem, GPA(a), MIB(2)) == w->host &&
		   mem_buffer(vm->mem, GPA(a + MIB(2)), MIB(4)) == v->host,
	   "buffers are found in either");
	is(window_place(w, b), 0, "it moves");
	ok(!mem_buffer(vm->mem, GPA(a), 1) && mem_buffer(vm->mem, GPA(b), 1) == w->host,
	   "and its buffers with it");
	is(window_place(w, MIB(2)), -EEXIST, "where it cannot go");
	ok(w->base == 0 && !mem_buffer(vm->mem, GPA(b), 1), "it is nowhere");
	window_destroy(w);
	window_destroy(v);
	vm_destroy(vm);
}

static void t_buffers(void)
{
	struct vm *vm = bare();
	struct window *w = window(vm, MIB(2));
	const uint64_t at = GIB(8);
	const struct mem *m = vm->mem;

	need(!window_place(w, at));
	ok(mem_buffer(m, GPA(at + 5), 7) == w->host + 5, "a buffer may lie in a window");
	ok(mem_buffer(m, GPA(at + MIB(2) - 1), 1) && !mem_buffer(m, GPA(at + MIB(2) - 1), 2) &&
		   !mem_buffer(m, GPA(at - 1), 2) && !mem_buffer(m, GPA(at + MIB(2)), 1),
	   "all of it or nothing");
	ok(!mem_buffer(m, GPA(at), 0) && !mem_buffer(m, GPA(at), UINT64_MAX) &&
		   !mem_buffer(m, GPA(at + 1), UINT64_MAX - at) &&
		   !mem_buffer(m, GPA(UINT64_MAX), 2),
	   "no length wraps");
	ok(mem_buffer(m, GPA(0), MIB(4)) == m->region[0].host && !mem_buffer(m, GPA(0), MIB(5)),
	   "or in RAM, as before");
	ok(!mem_span(m, GPA(at), 1), "rings and tables may not");
	window_destroy(w);
	ok(!mem_buffer(m, GPA(at), 1), "nor may anything where a window was");
	vm_destroy(vm);
}

static void t_alloc(void)
{
	struct vm *vm = bare();
	struct window *w[16], *large = window(vm, GIB(64));
	uint64_t base = 0, start = arch_pci64_base(vm) + ARCH_PCI64_SIZE;
	unsigned n = 0, good = 0;

	is(window_alloc(large, &base), -ENOSPC,
	   "what does not fit when it is aligned has no place");
	window_destroy(large);
	for (; n < ARRAY_LEN(w); n++) {
		w[n] = window(vm, GIB(8));
		if (window_alloc(w[n], &base))
			break;
		need(!window_place(w[n], base));
		good += IS_ALIGNED(base, GIB(8)) && base >= start;
	}
	ok(n == 7 && good == n, "windows of 8 GiB find places of their own above RAM and PCI");
	is(base, w[n - 1]->base, "and one too many finds none");
	for (unsigned i = 0; i <= n; i++)
		window_destroy(w[i]);
	vm_destroy(vm);
}

/* ---- what lies in it ---- */

static void t_map(void)
{
	struct vm *vm = bare();
	struct window *w = window(vm, MIB(4));
	int fd = file_of(4);
	char byte = 0;

	need(map_pages(w, 1, 4, fd, PROT_READ | PROT_WRITE));
	ok(look(w, 1) == 'a' && look(w, 4) == 'd', "a file is seen where it was mapped");
	ok(!is_there(w, 0) && !is_there(w, 5), "and nowhere else");
	poke(w, 2, 'X');
	ok(pread(fd, &byte, 1, (off_t)page) == 1 && byte == 'X', "a write is the file's");
	is(window_unmap(w, 2 * page, page), 0, "a part is taken away");
	ok(is_there(w, 1) && !is_there(w, 2) && look(w, 3) == 'c', "and the rest stays");
	need(map_pages(w, 2, 1, fd, PROT_READ));
	is(look(w, 2), 'a', "something else takes its place");

	need(window_hold(w, page, page));
	window_mapped(w, page, page, false);
	is(look(w, 1), 'a', "a mapping that failed leaves what was there");
	need(munmap(window_hold(w, page, page), page) == 0);
	window_mapped(w, page, page, false);
	ok(!is_there(w, 1) && look(w, 2) == 'a', "or nothing, but never a hole for others");
	need(map_pages(w, 1, 1, fd, PROT_READ));
	is(w->state->npieces, 4, "every mapping is counted");
	is(window_unmap(w, 0, MIB(4)), 0, "all is taken away");
	ok(!is_there(w, 1) && !is_there(w, 4) && w->state->npieces == 0, "and nothing counts");
	is(said(ANY), 0, "nothing of this is worth a line");
	close(fd);
	window_destroy(w);
	vm_destroy(vm);
}

/* A guest that cuts the window into pages has its limit before the process has. */
static void t_pieces(void)
{
	struct vm *vm = bare();
	struct window *w = window(vm, GIB(1)), *v = window(vm, MIB(2));
	size_t n = 0, npages = GIB(1) / page;
	int fd = file_of(1);

	while (2 * n + 1 < npages && map_pages(w, 2 * n, 1, fd, PROT_READ))
		n++;
	ok(2 * n + 1 < npages && mappings() < 65530 - 8192, "%zu pieces are too many", n);
	ok(!map_pages(v, 0, 1, fd, PROT_READ), "for all windows together");
	is(window_unmap(w, page, page), -ENOMEM, "also where taking away would make one more");
	is(window_unmap(w, 0, GIB(1)), 0, "taking all away works");
	ok(map_pages(v, 0, 1, fd, PROT_READ), "and then there is room");
	window_destroy(w);
	window_destroy(v);
	close(fd);
	vm_destroy(vm);
}

static void t_blank(void)
{
	struct vm *vm = bare();
	struct window *w = window(vm, MIB(4));
	int fd = file_of(4);
	char byte = 0;

	need(map_pages(w, 1, 4, fd, PROT_READ | PROT_WRITE));
	is(window_blank(w, 3 * page, 2 * page), 0, "the end of a mapping becomes zeros");
	ok(look(w, 2) == 'b' && !look(w, 3) && !look(w, 4) && !is_there(w, 5), "and no more of it");
	is(w->state->npieces, 3, "which are a piece");
	poke(w, 3, 'X');
	ok(look(w, 3) == 'X' && pread(fd, &byte, 1, 2 * (off_t)page) == 1 && byte == 'c',
	   "of the machine's own");
	is(window_blank(w, page, 4 * page), 0, "then all of it");
	ok(!look(w, 1) && !look(w, 3) && w->state->npieces == 2, "as one");
	need(map_pages(w, 1, 4, fd, PROT_READ));
	ok(look(w, 1) == 'a' && look(w, 4) == 'd' && w->state->npieces == 2, "the file comes back");
	close(fd);
	window_destroy(w);
	vm_destroy(vm);
}

/* ---- our own accesses ---- */

static void t_touched(void)
{
	struct vm *vm = bare();
	struct window *w = window(vm, MIB(2)), *other = window(vm, MIB(2));
	int fd = file_of(8);
	struct iovec iov;

	need(map_pages(w, 0, 8, fd, PROT_READ | PROT_WRITE));
	need(map_pages(other, 0, 8, fd, PROT_READ));
	need(!ftruncate(fd, (off_t)(2 * page)));
	iov = (struct iovec){w->host + 2 * page, page};
	is(preadv(fd, &iov, 1, 0) < 0 ? errno : 0, EFAULT,
	   "a system call into a page whose file was cut says so");
	iov.iov_base = w->host + page;
	is(preadv(fd, &iov, 1, 0), (long)page, "one into what is left works");
	is(said(ANY), 0, "and nothing is said");
	is(look(w, 4), 0, "a copy of ours reads zeros");
	is(said(TOUCHED), 1, "which is said");
	poke(w, 4, 'x');
	poke(w, 5, 'y');
	ok(look(w, 4) == 'x' && look(w, 5) == 'y', "what is written there is read back");
	ok(look(w, 0) == 'a' && look(w, 1) == 'a', "the file's own pages stay");
	ok(!is_there(w, 3) && !is_there(other, 4), "and so do pages that nobody touched");
	poke(other, 0, 'z');
	ok(look(other, 0) == 'z' && look(w, 0) == 'a',
	   "a page that may only be read is replaced, its file unchanged");
	is(said(TOUCHED), 1, "another window says it for itself");
	is(look(w, 100), 0, "a page that is not mapped at all is zeros too");
	is(said(TOUCHED), 0, "each says it once");
	need(!ftruncate(fd, (off_t)(8 * page)) && pwrite(fd, "new", 3, (off_t)(4 * page)) == 3);
	is(look(w, 4), 'x', "zeros stay when the file grows");
	need(map_pages(w, 0, 8, fd, PROT_READ));
	is(look(w, 4), 'n', "until it is mapped again");
	window_destroy(w);
	window_destroy(other);
	close(fd);
	vm_destroy(vm);
}

/* The bus's accesses reach the same memory. */
static void t_ops(void)
{
	struct vm *vm = bare();
	struct window *w = window(vm, MIB(2));
	int fd = file_of(1);
	uint64_t v = 0;

	need(map_pages(w, 0, 1, fd, PROT_READ | PROT_WRITE));
	window_ops.read(w, 1, &v, 4);
	is(v, 0x61616161, "an access that came by exit reads the file");
	window_ops.write(w, 2, "XY", 2);
	ok(pread(fd, &v, 8, 0) == 8 && v == 0x6161616159586161, "and writes it");
	need(!ftruncate(fd, 0));
	window_ops.read(w, 1, &v, 8);
	is(v, 0, "or zeros");
	window_destroy(w);
	close(fd);
	vm_destroy(vm);
}

static void t_mends(void)
{
	struct vm *vm = bare();
	struct window *w = window(vm, MIB(64));
	unsigned before = mappings();
	int fd = file_of(1);

	(void)said(ANY);
	need(map_pages(w, 0, 1, fd, PROT_READ));
	for (size_t i = 1; i < 8000; i += 2)
		poke(w, i, 'x');
	ok(mappings() < before + 2200, "a guest that never tires gets few mappings of ours");
	ok(look(w, 0) == 0 && is_there(w, 2), "and at last the whole window as zeros");
	need(map_pages(w, 0, 1, fd, PROT_READ));
	is(look(w, 0), 'a', "in which it may map again");
	is(window_unmap(w, 0, MIB(64)), 0, "and which it may take away");
	ok(!is_there(w, 1) && w->state->mends == 0, "to the last page");
	is(said(TOUCHED), 1, "with one line in all");
	window_destroy(w);
	close(fd);
	vm_destroy(vm);
}

/* Threads that use as buffers what another maps, cuts and takes away. */
struct race {
	struct window *w;
	bool stop;
};

/* Guest memory: who races there races with the guest, which no lock of ours orders. */
__attribute__((no_sanitize("thread"))) static void *race_thread(void *arg)
{
	struct race *r = arg;
	volatile char *p = (volatile char *)r->w->host;

	for (size_t i = 0; !__atomic_load_n(&r->stop, __ATOMIC_RELAXED); i++)
		p[(i + 7) % 32 * page + 64] = p[i % 32 * page];
	return NULL;
}

static void t_races(void)
{
	struct vm *vm = bare();
	struct race r = {.w = window(vm, MIB(2))};
	int fd = file_of(16);
	unsigned seen = 0;
	pthread_t t[2];

	for (unsigned i = 0; i < ARRAY_LEN(t); i++)
		need(!pthread_create(&t[i], NULL, race_thread, &r));
	for (unsigned i = 0; i < 300; i++) {
		need(map_pages(r.w, i % 16, 16, fd, PROT_READ | PROT_WRITE));
		need(!ftruncate(fd, (off_t)(i % 17 * page)));
		(void)!window_repair(vm, &seen);
		need(!window_unmap(r.w, i % 8 * page, 8 * page));
		need(!ftruncate(fd, (off_t)(16 * page)));
	}
	__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
	ok(said(TOUCHED) <= 1, "threads go on while their buffers are mapped, cut and taken away");
	window_destroy(r.w);
	close(fd);
	vm_destroy(vm);
}

/* ---- faults that are nobody's ---- */

static struct window *child_window;

static void stray_access(void)
{
	volatile char *p = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*p = 1;
}

static void sent_signal(void)
{
	raise(SIGBUS);
}

static void jump(void)
{
	void (*volatile fn)(void);
	void *at = child_window->host;

	memcpy((void *)&fn, &at, sizeof(at));
	fn();
}

/* How a child that does this, under a filter, ends. */
static int ending_of(void (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	need(pid >= 0);
	if (pid == 0) {
		alarm(10);
		if (sandbox_enter("child", NULL, 0))
			_exit(99);
		fn();
		_exit(0);
	}
	need(waitpid(pid, &status, 0) == pid);
	return status;
}

/* A sanitizer takes a crash for its own and exits. */
static bool ended_by(int status, int sig)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	if (WIFEXITED(status))
		return WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != SANDBOX_EXIT;
#endif
	return WIFSIGNALED(status) && WTERMSIG(status) == sig;
}

static void t_others(void)
{
	struct vm *vm = bare();

	child_window = window(vm, MIB(2));
	ok(ended_by(ending_of(stray_access), SIGSEGV),
	   "a fault elsewhere ends the process as ever");
	ok(ended_by(ending_of(sent_signal), SIGBUS), "and so does a signal that was sent");
	ok(ended_by(ending_of(jump), SIGSEGV), "and a jump into a window");
	(void)said(ANY);
	window_destroy(child_window);
	vm_destroy(vm);
}

static void exit_seven(int sig)
{
	(void)sig;
	_exit(7);
}

static void handled_before(void)
{
	struct sigaction sa = {.sa_handler = exit_seven};

	if (!sigaction(SIGSEGV, &sa, NULL) && !window_init())
		stray_access();
}

static void blocked_before(void)
{
	struct vm *vm = bare();
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	need(!window_init());
	poke(window(vm, MIB(2)), 3, 'x');
	_exit(7);
}

/* Before this process has a handler itself. */
static void t_before(void)
{
	int status = 0;
	pid_t pid = fork();

	need(pid >= 0);
	if (pid == 0) {
		handled_before();
		_exit(0);
	}
	need(waitpid(pid, &status, 0) == pid);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 7,
	   "who handled faults before gets those of no window");
	pid = fork();
	need(pid >= 0);
	if (pid == 0)
		blocked_before();
	need(waitpid(pid, &status, 0) == pid);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 7, "blocked signals are unblocked");
	(void)said(ANY);
}

/* ---- the guest's accesses, as vCPUs report them ---- */

static bool can_repair(void)
{
	uint8_t *p = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can = madvise(p, page, MADV_POPULATE_READ) == 0;

	munmap(p, page);
	return can;
}

/* Cut to k of 16 pages, of which the last kept one is of a file too. */
static void t_repair_at(size_t k)
{
	struct vm *vm = bare();
	struct window *w = window(vm, MIB(2));
	int fd = file_of(16), whole = file_of(4);
	unsigned seen = 0, good = 0;

	need(map_pages(w, 8, 16, fd, PROT_READ | PROT_WRITE));
	need(map_pages(w, 24, 4, whole, PROT_READ));
	need(window_repair(vm, &seen));
	ok(!window_repair(vm, &seen), "%zu of 16 pages: before, there is nothing to repair", k);
	need(!ftruncate(fd, (off_t)(k * page)));
	is(window_repair(vm, &seen), k < 16, "a vCPU may go on if it was cut");
	for (size_t i = 0; i < 16; i++)
		good += is_there(w, 8 + i) && look(w, 8 + i) == (i < k ? 'a' + (char)i : 0);
	is(good, 16, "with the file to its end and zeros behind");
	ok(look(w, 24) == 'a' && look(w, 27) == 'd' && !is_there(w, 7) && !is_there(w, 28),
	   "and all else as it was");
	ok(!window_repair(vm, &seen), "not again");
	is(said(SHORT), k < 16, "it is said");
	close(fd);
	close(whole);
	window_destroy(w);
	vm_destroy(vm);
}

static void t_repair_seen(void)
{
	struct vm *vm = bare();
	struct window *w = window(vm, MIB(2)), *v = window(vm, MIB(2));
	unsigned none = 0, first = 0, second = 0;
	int fd = file_of(4);

	need(map_pages(w, 0, 4, fd, PROT_READ));
	need(map_pages(v, 4, 4, fd, PROT_READ));
	(void)!window_repair(vm, &first);
	(void)!window_repair(vm, &second);
	need(!ftruncate(fd, (off_t)page));
	ok(window_repair(vm, &first), "the first vCPU that meets a page mends it");
	ok(window_repair(vm, &second), "the second goes on as well");
	ok(!window_repair(vm, &first) && !window_repair(vm, &second), "each once");
	is(said(SHORT), 2, "both windows were mended");

	need(!ftruncate(fd, (off_t)(4 * page)));
	need(map_pages(w, 0, 4, fd, PROT_READ));
	(void)!window_repair(vm, &first);
	need(!ftruncate(fd, (off_t)page));
	is(look(w, 3), 0, "where the last page was a buffer already");
	ok(window_repair(vm, &first) && is_there(w, 1) && is_there(w, 2),
	   "those before it are still found");
	is(said(SHORT), 0, "without another line");
	window_destroy(w);
	window_destroy(v);
	ok(!window_repair(vm, &none), "without windows there is nothing to mend");
	close(fd);
	vm_destroy(vm);
}

static void t_repair(void)
{
	static const size_t cuts[] = {0, 1, 7, 15, 16};

	if (!can_repair()) {
		skip("Linux before 5.14", "a truncated file under the guest");
		return;
	}
	for (unsigned i = 0; i < ARRAY_LEN(cuts); i++)
		t_repair_at(cuts[i]);
	t_repair_seen();
}

/* ---- guests ---- */

#define CODE   0x100000
#define TABLES 0x200000
#define TSS    0x300000
#define PORT   0x500
#define AT     0xd0000000u
#define AT2    0xd8000000u

#define GUEST(name, bits, body)                                                        \
	asm(".pushsection .rodata\n.balign 32\n.code" bits "\n" #name ":\n" body #name \
	    "_end:\n.code64\n.popsection\n");                                          \
	extern const uint8_t name[], name##_end[]

/* The addresses are 32 bits wide in either mode. */
#define SAY_AL "mov $0x500, %edx\n out %al, (%dx)\n"
#define WAIT   "mov $0x500, %edx\n 1: in (%dx), %al\n test %al, %al\n jz 1b\n"
/* clang-format off */
#define BODY                                                                          \
	"mov $0xd0000000, %edi\n mov (%edi), %al\n" SAY_AL                            \
	"movb $0x42, 1(%edi)\n mov $0x77, %al\n" SAY_AL WAIT /* 'w': truncate now */  \
	"mov (%edi), %al\n" SAY_AL                                                    \
	"movb $0x78, (%edi)\n mov (%edi), %al\n" SAY_AL                               \
	"mov $0x6d, %al\n" SAY_AL                            /* 'm': move it */       \
	"mov (%edi), %al\n" SAY_AL                                                    \
	"mov $0xd8000000, %edi\n mov (%edi), %al\n" SAY_AL                            \
	"mov $0x600, %edx\n mov $0x34, %al\n out %al, (%dx)\n 9: jmp 9b\n"
GUEST(guest_32, "32", BODY);
GUEST(guest_64, "64", BODY);
/* Two of these: waits, then touches what is gone. */
GUEST(guest_touch, "64",
	"mov $0xd0000000, %edi\n mov (%edi), %al\n" SAY_AL WAIT
	"mov 4096(%edi), %al\n" SAY_AL
	"9: jmp 9b\n");
/* Nothing is mapped there. */
GUEST(guest_astray, "64",
	"mov $0xd0000000, %edi\n mov (%edi), %al\n" SAY_AL "9: jmp 9b\n");
/* clang-format on */
#define GUEST_OF(name) name, (size_t)(name##_end - name)

struct machine {
	struct vm *vm;
	struct vcpus *vcpus;
	struct window *w;
	int fd;
	int said[2];
	uint8_t go; /* atomic: what the port reads */
};

static void port_read(void *owner, uint64_t off, void *data, unsigned len)
{
	struct machine *m = owner;

	(void)off;
	(void)len;
	*(uint8_t *)data = __atomic_load_n(&m->go, __ATOMIC_ACQUIRE);
}

static void port_write(void *owner, uint64_t off, const void *data, unsigned len)
{
	struct machine *m = owner;

	(void)off;
	/* On the vCPU's thread, under its filter: as when a guest moves a BAR. */
	if (*(const uint8_t *)data == 'm') {
		bus_remove(&m->vm->mmio, AT, m->w);
		need(!window_place(m->w, AT2));
	}
	__atomic_store_n(&m->go, 0, __ATOMIC_RELEASE);
	need(write(m->said[1], data, len) == (ssize_t)len);
}

static void machine_init(struct machine *m, unsigned ncpus, const uint8_t *code, size_t len)
{
	static const struct bus_ops port_ops = {port_read, port_write};
	const struct vm_params params = {
		.mem_size = MIB(4), .pages = MEM_PAGES_SMALL, .ncpus = ncpus};
	struct arch_boot boot = {.entry = ARCH_ENTRY_PVH32, .entry_addr = CODE};

	*m = (struct machine){.said = {-1, -1}, .fd = file_of(2)};
	need(!pipe(m->said) && !vm_create(&m->vm, &params));
	need(!arch_platform_init(m->vm));
	need(!bus_add(&m->vm->pio, &(struct bus_range){PORT, 1, &port_ops, m, "test"}));
	m->w = window(m->vm, MIB(2));
	need(!window_place(m->w, AT));
	need(!bus_add(&m->vm->mmio, &(struct bus_range){AT, MIB(2), &window_ops, m->w, "window"}));
	need(!mem_write(m->vm->mem, GPA(CODE), code, len));
	need(!arch_boot_write(m->vm, &boot));
	need(!vcpus_create(&m->vcpus, m->vm, &boot));
}

static void machine_fini(struct machine *m)
{
	vcpus_destroy(m->vcpus);
	window_destroy(m->w);
	vm_destroy(m->vm);
	close_fd(&m->said[0]);
	close_fd(&m->said[1]);
	close_fd(&m->fd);
}

/* The next byte a guest says, or -1. */
static int hear(struct machine *m)
{
	struct pollfd p[] = {{.fd = m->said[0], .events = POLLIN},
			     {.fd = m->vm->end_fd, .events = POLLIN}};
	uint8_t byte = 0;

	if (poll(p, 2, WAIT_MS) <= 0 || !p[0].revents || read(m->said[0], &byte, 1) != 1)
		return -1;
	return byte;
}

static void go(struct machine *m)
{
	__atomic_store_n(&m->go, 1, __ATOMIC_RELEASE);
}

static enum vm_end machine_end(struct machine *m)
{
	struct pollfd p = {.fd = m->vm->end_fd, .events = POLLIN};

	poll(&p, 1, WAIT_MS);
	vcpus_stop(m->vcpus);
	return vm_get_end(m->vm);
}

static void put64(struct machine *m, uint64_t at, uint64_t v)
{
	need(!mem_write(m->vm->mem, GPA(at), &v, sizeof(v)));
}

/* Page tables of 2 MiB pages that ring 3 may use: RAM, and both places of the window. */
static void tables(struct machine *m)
{
	const uint64_t table = 7, leaf = 0x87;

	put64(m, TABLES, (TABLES + 0x1000) | table);
	put64(m, TABLES + 0x1000, (TABLES + 0x2000) | table);
	put64(m, TABLES + 0x1000 + 3 * 8, (TABLES + 0x3000) | table);
	put64(m, TABLES + 0x2000, 0 | leaf);
	put64(m, TABLES + 0x2000 + 8, MIB(2) | leaf);
	put64(m, TABLES + 0x3000 + ((AT >> 21) & 511) * 8, AT | leaf);
	put64(m, TABLES + 0x3000 + ((AT2 >> 21) & 511) * 8, AT2 | leaf);
}

/* Ring 3 of 64-bit mode, with Linux's selectors, without which a software KVM emulates it too. */
static void ring3(struct machine *m, unsigned i)
{
	struct kvm_segment code = {.limit = ~0u,
				   .selector = 0x33,
				   .type = 11,
				   .present = 1,
				   .dpl = 3,
				   .s = 1,
				   .l = 1,
				   .g = 1};
	struct kvm_segment data = {.limit = ~0u,
				   .selector = 0x2b,
				   .type = 3,
				   .present = 1,
				   .dpl = 3,
				   .s = 1,
				   .db = 1,
				   .g = 1};
	struct kvm_regs regs = {.rip = CODE, .rflags = 2};
	struct kvm_mp_state runnable = {.mp_state = KVM_MP_STATE_RUNNABLE};
	struct kvm_sregs s;
	int fd = m->vcpus->v[i].fd;

	need(!ioctl(fd, KVM_GET_SREGS, &s));
	s.cs = code;
	s.ds = s.es = s.ss = s.fs = s.gs = data;
	/* Of zeros, its bitmap of ports too: all are allowed. */
	s.tr = (struct kvm_segment){
		.base = TSS, .limit = 0xfff, .selector = 0x40, .type = 11, .present = 1};
	s.cr3 = TABLES;
	s.cr4 = 0x620;
	s.cr0 = 0x80050033;
	s.efer = 0xd00;
	need(!ioctl(fd, KVM_SET_SREGS, &s) && !ioctl(fd, KVM_SET_REGS, &regs));
	need(!ioctl(fd, KVM_SET_MP_STATE, &runnable));
}

static void t_guest(const char *what, const uint8_t *code, size_t len, bool user)
{
	struct machine m;
	char byte = 0;

	machine_init(&m, 1, code, len);
	if (user) {
		tables(&m);
		ring3(&m, 0);
	}
	need(map_pages(m.w, 0, 2, m.fd, PROT_READ | PROT_WRITE));
	need(!vcpus_start(m.vcpus));
	is(hear(&m), 'a', "%s: a guest reads a mapped file", what);
	is(hear(&m), 'w', "and writes it");
	ok(pread(m.fd, &byte, 1, 1) == 1 && byte == 'B', "the host sees what it wrote");
	need(!ftruncate(m.fd, 0));
	go(&m);
	is(hear(&m), 0, "after the host has cut the file it reads zeros");
	is(hear(&m), 'x', "and what it writes there then");
	is(said(ANY), 1, "of which one line tells");
	is(hear(&m), 'm', "it goes on, and moves it");
	is(hear(&m), 0xff, "where the window was there is nothing");
	is(hear(&m), 'x', "where it moved to is what it holds");
	is(machine_end(&m), VM_POWEROFF, "and the machine ends by itself");
	machine_fini(&m);
}

/* Two vCPUs meet the page at once: whoever comes second finds it mended, and goes on too. */
static void t_guests_together(void)
{
	unsigned zeros = 0;

	for (unsigned round = 0; round < 20; round++) {
		struct machine m;

		machine_init(&m, 2, GUEST_OF(guest_touch));
		tables(&m);
		ring3(&m, 0);
		ring3(&m, 1);
		need(map_pages(m.w, 0, 2, m.fd, PROT_READ));
		need(!vcpus_start(m.vcpus));
		need(hear(&m) == 'a' && hear(&m) == 'a');
		need(!ftruncate(m.fd, (off_t)page));
		/* A guest that speaks first takes the word back: said until both have heard. */
		for (unsigned n = 0; n < 2;) {
			struct pollfd p = {.fd = m.said[0], .events = POLLIN};

			go(&m);
			if (poll(&p, 1, 10) == 1 && hear(&m) == 0)
				n++, zeros++;
			if (vm_get_end(m.vm) != VM_RUNNING)
				break;
		}
		vcpus_stop(m.vcpus);
		machine_fini(&m);
	}
	is(zeros, 40, "vCPUs that meet a page together both go on");
	(void)said(ANY);
}

static void t_astray(void)
{
	struct machine m;

	machine_init(&m, 1, GUEST_OF(guest_astray));
	tables(&m);
	ring3(&m, 0);
	need(!vcpus_start(m.vcpus));
	is(machine_end(&m), VM_ERROR, "a guest that uses what it never mapped ends with an error");
	ok(strstr(m.vm->end_detail, "nothing mapped"), "that says what it may be");
	machine_fini(&m);
	(void)said(ANY);
}

static void t_guests(void)
{
	if (access("/dev/kvm", R_OK | W_OK) != 0) {
		skip("no /dev/kvm", "guests with a window");
		return;
	}
	if (!can_repair()) {
		skip("Linux before 5.14", "guests with a window");
		return;
	}
	t_guest("as it starts", GUEST_OF(guest_32), false);
	t_guest("in ring 3", GUEST_OF(guest_64), true);
	t_guests_together();
	t_astray();
}

int main(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	log_catch();
	need(!sandbox_init());
	t_before();
	need(!window_init());
	t_sizes();
	t_place();
	t_buffers();
	t_alloc();
	t_map();
	t_blank();
	t_pieces();
	t_touched();
	t_ops();
	t_mends();
	t_others();
	t_repair();
	t_races();
	t_guests();
	return done();
}
