// SPDX-License-Identifier: Apache-2.0
/*
 * t_serial.c - the 16550: registers as Linux probes them, interrupts, and both ends of the host,
 * slow and broken ones too.
 *
 * The guest's side goes through the port bus of a vm without KVM; the interrupt is an eventfd that
 * is read here.
 */
#include "capture.h"
#include "tap.h"
#include "../devices/serial.h"
#include "../devices/table.h"
#include "../vmm/vm.h"
#include <fcntl.h>
#include <linux/serial_reg.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>

#define COM1 0x3f8

static struct vm *vm;
static struct serial *uart;
static int out_pipe[2]; /* what the guest writes comes out of [0] */

/* input: a descriptor that becomes standard input, or -1: the guest gets none. */
static void plug(const char *output, int input)
{
	const struct vm_params params = {.mem_size = MIB(2), .ncpus = 1};
	struct serial_config cfg = {.output = (char *)output, .input = input >= 0};
	struct device *d;

	if (input >= 0)
		need(dup2(input, STDIN_FILENO) == STDIN_FILENO);
	need(!vm_create_bare(&vm, &params));
	need(!serial_device.create(vm, &cfg, 0, &d));
	need(d->run && !d->run(d));
	uart = container_of(d, struct serial, base);
}

/* With a pipe at the output. */
static void plug_pipe(int input)
{
	char path[32];

	need(!pipe2(out_pipe, O_CLOEXEC));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", out_pipe[1]);
	plug(path, input);
	close_fd(&out_pipe[1]);
}

static void unplug(void)
{
	uart->base.destroy(&uart->base);
	vm_destroy(vm);
	close_fd(&out_pipe[0]);
	close_fd(&out_pipe[1]);
}

static uint8_t in8(unsigned reg)
{
	uint8_t v = 0;

	bus_read(&vm->pio, COM1 + reg, &v, 1);
	return v;
}

static void out8(unsigned reg, uint8_t v)
{
	bus_write(&vm->pio, COM1 + reg, &v, 1);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* How many interrupts there were since the last call. */
static unsigned irqs(void)
{
	eventfd_t n = 0;

	return eventfd_read(uart->irq.fd, &n) ? 0 : (unsigned)n;
}

static bool wait_irq(void)
{
	struct pollfd p = {.fd = uart->irq.fd, .events = POLLIN};

	return poll(&p, 1, 10000) == 1 && irqs();
}

/* Polls a bit of the line status as a driver does; false after ten seconds. */
static bool wait_lsr(uint8_t bit)
{
	int64_t end = now_ms() + 10000;

	while (!(in8(UART_LSR) & bit) && now_ms() < end)
		sched_yield();
	return in8(UART_LSR) & bit;
}

static char *read_all(int fd, size_t n)
{
	char *buf = calloc(1, n + 1);
	size_t got = 0;
	ssize_t r = 1;

	need(buf);
	while (got < n && r > 0) {
		r = read(fd, buf + got, n - got);
		got += r > 0 ? (size_t)r : 0;
	}
	return buf;
}

static char letter(size_t i)
{
	return (char)('a' + i % 23);
}

/* ---- registers ---- */

static void test_registers(void)
{
	plug_pipe(-1);
	is(in8(UART_LSR), UART_LSR_THRE | UART_LSR_TEMT,
	   "at the start the transmitter is empty and nothing came");
	is(in8(UART_IIR), UART_IIR_NO_INT, "no interrupt is pending, and there are no FIFOs");
	is(in8(UART_MSR) & 0xf0, UART_MSR_DCD | UART_MSR_DSR | UART_MSR_CTS,
	   "the other side is ready");
	out8(UART_SCR, 0x5a);
	is(in8(UART_SCR), 0x5a, "the scratch register keeps a byte");
	out8(UART_LCR, UART_LCR_DLAB | UART_LCR_WLEN8);
	out8(UART_DLL, 0x0c);
	out8(UART_DLM, 0x34);
	is(in8(UART_DLL) | in8(UART_DLM) << 8, 0x340c, "the divisor keeps two");
	out8(UART_LCR, UART_LCR_WLEN8);
	is(in8(UART_LCR), UART_LCR_WLEN8, "the line control reads back");
	is(in8(UART_IER), 0, "the divisor was not taken for the interrupt enables");
	out8(UART_LSR, 0xff);
	out8(UART_MSR, 0xff);
	is(in8(UART_LSR), UART_LSR_THRE | UART_LSR_TEMT, "the line status cannot be written");
	unplug();
}

/* The steps by which Linux' 8250 driver tells what it has before it. */
static void test_autoconfig(void)
{
	plug_pipe(-1);
	out8(UART_IER, 0);
	is(in8(UART_IER) & 0x0f, 0, "all interrupts can be disabled");
	out8(UART_IER, 0x0f);
	is(in8(UART_IER), 0x0f, "and four enabled, and no more");
	out8(UART_IER, 0xff);
	is(in8(UART_IER), 0x0f, "whatever is written");
	out8(UART_IER, 0);
	out8(UART_MCR, UART_MCR_LOOP | UART_MCR_OUT2 | UART_MCR_RTS);
	is(in8(UART_MSR) & 0xf0, 0x90, "looped back, the modem status is what was put out");
	out8(UART_MCR, UART_MCR_LOOP | UART_MCR_DTR | UART_MCR_OUT1);
	is(in8(UART_MSR) & 0xf0, UART_MSR_DSR | UART_MSR_RI, "each bit of it");
	out8(UART_TX, 'L');
	ok(in8(UART_LSR) & UART_LSR_DR && in8(UART_RX) == 'L', "a byte comes back");
	is(in8(UART_RX), 0, "once");
	out8(UART_MCR, 0);
	out8(UART_FCR, UART_FCR_ENABLE_FIFO);
	is(in8(UART_IIR) >> 6, 3, "it has the FIFOs of a 16550A");
	out8(UART_FCR, UART_FCR_ENABLE_FIFO | UART_FCR7_64BYTE);
	is(in8(UART_IIR) & 0x20, 0, "and not those of a 16750");
	out8(UART_FCR, 0);
	is(in8(UART_IIR) >> 6, 0, "they can be turned off");
	unplug();
}

/* Every length at every offset: bytes go to one register each, and none beyond what was asked for. */
static void test_widths(void)
{
	static const uint8_t wide[4] = {'W', 0x00, UART_FCR_ENABLE_FIFO, UART_LCR_WLEN8};
	unsigned spilled = 0;
	uint8_t buf[16];
	char *text;

	plug_pipe(-1);
	for (unsigned off = 0; off < 8; off++) {
		for (unsigned len = 1; len <= 8; len++) {
			memset(buf, 0xa5, sizeof(buf));
			bus_read(&vm->pio, COM1 + off, buf, len);
			for (unsigned i = len; i < sizeof(buf); i++)
				spilled += buf[i] != 0xa5;
			vm->pio.range[0].ops->read(uart, off, buf, len);
			for (unsigned i = len; i < sizeof(buf); i++)
				spilled += buf[i] != 0xa5;
			vm->pio.range[0].ops->write(uart, off + 8, buf, len);
		}
	}
	is(spilled, 0, "reads of 1 to 8 bytes at any register give just those");
	bus_write(&vm->pio, COM1, wide, sizeof(wide));
	ok(in8(UART_IIR) >> 6 == 3 && in8(UART_LCR) == UART_LCR_WLEN8,
	   "a write of four bytes is one to each of four registers");
	text = read_all(out_pipe[0], 1);
	is(text[0], 'W', "the first of them was sent");
	free(text);
	ok(!strcmp(vm->platform[0].hid, "PNP0501") && vm->platform[0].gsi == 4,
	   "the boot tables have it");
	unplug();
}

/* ---- interrupts ---- */

static void test_thre(void)
{
	plug_pipe(-1);
	is(irqs(), 0, "there is no interrupt that nobody enabled");
	out8(UART_IER, UART_IER_THRI);
	is(irqs(), 1, "enabling it with an empty transmitter is one");
	is(in8(UART_IIR) & 0x0f, UART_IIR_THRI, "which says so");
	is(in8(UART_IIR) & 0x0f, UART_IIR_NO_INT, "and is acknowledged by that");
	out8(UART_IER, UART_IER_THRI);
	is(irqs(), 0, "enabling it again is none");
	out8(UART_TX, 'a');
	is(irqs(), 1, "a byte that was sent is");
	for (unsigned i = 1; i < UART_FIFO; i++)
		out8(UART_TX, 'b');
	is(irqs(), 0, "a FIFO of them is one interrupt, not sixteen");
	is(in8(UART_IIR) & 0x0f, UART_IIR_THRI, "the transmitter is empty again");
	out8(UART_IER, 0);
	out8(UART_IER, UART_IER_THRI);
	is(irqs(), 1, "off and on again is one too");
	unplug();
}

/* Linux clears IER around every line it prints: what came meanwhile must be told afterwards. */
static void test_enable_later(void)
{
	int p[2];

	need(!pipe2(p, O_CLOEXEC));
	plug_pipe(p[0]);
	out8(UART_IER, UART_IER_RDI);
	need(write(p[1], "x", 1) == 1);
	ok(wait_irq(), "a byte that comes is an interrupt");
	is(in8(UART_IIR) & 0x0f, UART_IIR_RDI, "of its own kind");
	out8(UART_IER, 0);
	is(in8(UART_IIR) & 0x0f, UART_IIR_NO_INT, "that can be masked");
	out8(UART_IER, UART_IER_RDI | UART_IER_THRI);
	is(irqs(), 1, "and is there again when it is not");
	is(in8(UART_IIR) & 0x0f, UART_IIR_RDI, "before an empty transmitter");
	is(in8(UART_RX), 'x', "the byte is what was sent");
	is(in8(UART_IIR) & 0x0f, UART_IIR_THRI, "then the transmitter has its turn");
	close(p[0]);
	close(p[1]);
	unplug();
}

/* ---- output ---- */

#define FLOOD 300000

static void *slow_reader(void *arg)
{
	(void)arg;
	return read_all(out_pipe[0], FLOOD);
}

static size_t mismatches(const char *text, size_t n)
{
	size_t bad = 0;

	for (size_t i = 0; i < n; i++)
		bad += text[i] != letter(i);
	return bad;
}

static void test_flood(void)
{
	pthread_t reader;
	void *text;

	plug_pipe(-1);
	need(!pthread_create(&reader, NULL, slow_reader, NULL));
	for (size_t i = 0; i < FLOOD; i++) {
		need(wait_lsr(UART_LSR_THRE));
		out8(UART_TX, (uint8_t)letter(i));
	}
	need(!pthread_join(reader, &text));
	is(mismatches(text, FLOOD), 0, "a guest that waits for the transmitter loses nothing");
	is(uart->tx_lost, 0, "and is not said to");
	free(text);
	unplug();
}

static void is_waiting(void *arg)
{
	*(bool *)arg = uart->tx_watch.slot;
}

/* Writes until the ring is full and the thread waits for the pipe, which nobody reads. */
static size_t fill_up(void)
{
	bool waiting = false;
	size_t n = 0;

	while (!waiting || in8(UART_LSR) & UART_LSR_THRE) {
		while (in8(UART_LSR) & UART_LSR_THRE)
			out8(UART_TX, (uint8_t)letter(n++));
		loop_call(uart->io, is_waiting, &waiting);
	}
	return n;
}

static void test_stalled(void)
{
	size_t n;
	char *text;

	plug_pipe(-1);
	n = fill_up();
	ok(n >= SERIAL_TX_SIZE,
	   "without a reader the transmitter becomes busy, and no sooner than it must");
	is(in8(UART_LSR) & (UART_LSR_THRE | UART_LSR_TEMT), 0, "it says so in both bits");
	out8(UART_IER, UART_IER_THRI);
	is(irqs(), 0, "and with no interrupt");
	for (unsigned i = 0; i < UART_FIFO - 1; i++)
		out8(UART_TX, (uint8_t)letter(n++));
	is(uart->tx_lost, 0, "there is room for what a driver had in hand");
	for (unsigned i = 0; i < 100; i++)
		out8(UART_TX, '!');
	is(uart->tx_lost, 100, "who goes on all the same loses it, and it is counted");
	text = read_all(out_pipe[0], 1000);
	is(mismatches(text, 1000), 0, "the reader gets the beginning");
	free(text);
	text = read_all(out_pipe[0], n - 1000);
	is(text[n - 1001], letter(n - 1), "and all of it up to there");
	free(text);
	ok(wait_irq(), "then the transmitter is empty, with an interrupt");
	ok(in8(UART_LSR) & UART_LSR_THRE, "and a bit");
	out8(UART_TX, '$');
	text = read_all(out_pipe[0], 1);
	is(text[0], '$', "and takes bytes again");
	free(text);
	unplug();
}

static void test_reader_gone(void)
{
	plug_pipe(-1);
	fill_up();
	out8(UART_IER, UART_IER_THRI);
	irqs();
	close_fd(&out_pipe[0]);
	ok(wait_lsr(UART_LSR_THRE), "a reader that closes leaves the transmitter empty");
	ok(wait_irq(), "with an interrupt, or output would wait for ever");
	for (unsigned i = 0; i < 2 * SERIAL_TX_SIZE; i++)
		out8(UART_TX, 'x');
	is(uart->tx_n, 0, "what comes after that is dropped");
	is(vm_get_end(vm), VM_RUNNING, "and the machine goes on");
	unplug();
}

static void test_drained(void)
{
	int64_t began;
	char *text;

	plug_pipe(-1);
	/* Roomy: a pipe is pages, and odd pieces do not fill them. */
	need(fcntl(out_pipe[0], F_SETPIPE_SZ, 1 << 20) >= 0);
	for (size_t i = 0; i < 60000; i++)
		out8(UART_TX, (uint8_t)letter(i));
	uart->base.destroy(&uart->base);
	text = read_all(out_pipe[0], 60000);
	is(mismatches(text, 60000), 0, "what was sent before the end is written before the end");
	free(text);
	vm_destroy(vm);
	close_fd(&out_pipe[0]);

	plug_pipe(-1);
	fill_up();
	began = now_ms();
	unplug();
	ok(now_ms() - began < 5000, "but a reader that does not read is not waited for for ever");
}

static void test_file_output(void)
{
	char path[] = "/tmp/t_serial.XXXXXX", *text;
	int fd = mkstemp(path);

	need(fd >= 0 && write(fd, "old content", 11) == 11);
	plug(path, -1);
	for (size_t i = 0; i < 100000; i++) {
		need(wait_lsr(UART_LSR_THRE));
		out8(UART_TX, (uint8_t)letter(i));
	}
	unplug();
	is(lseek(fd, 0, SEEK_END), 100000, "a file is made anew and gets all of it");
	lseek(fd, 0, SEEK_SET);
	text = read_all(fd, 100000);
	is(mismatches(text, 100000), 0, "as it was sent");
	free(text);
	unlink(path);
	close(fd);
}

static void test_bad_output(void)
{
	const struct vm_params params = {.mem_size = MIB(2), .ncpus = 1};
	struct serial_config cfg = {.output = (char[]){"/nonexistent/log"}};
	struct device *d = NULL;

	need(!vm_create_bare(&vm, &params));
	is(serial_device.create(vm, &cfg, 0, &d), -ENOENT,
	   "an output that cannot be opened is refused");
	ok(!d && !vm->pio.n, "and nothing is left of it");
	vm_destroy(vm);
}

/* ---- a file at the output, before the machine is known to start ---- */

/* A port that is made and not run; what it says is in said. */
static int make_only(const char *output, char *said, size_t size)
{
	const struct vm_params params = {.mem_size = MIB(2), .ncpus = 1};
	struct serial_config cfg = {.output = (char *)output};
	struct device *d = NULL;
	struct capture cap;
	int r;

	need(!vm_create_bare(&vm, &params));
	capture_begin(&cap);
	r = serial_device.create(vm, &cfg, 0, &d);
	capture_end(&cap, said, size);
	uart = d ? container_of(d, struct serial, base) : NULL;
	if (r)
		vm_destroy(vm);
	return r;
}

static off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -errno : st.st_size;
}

static void test_file_kept(void)
{
	char dir[] = "/tmp/t_serial.XXXXXX", said[500];
	struct serial_config cfg;
	struct device *d;
	int fd;

	need(mkdtemp(dir) && !chdir(dir));
	fd = open("old", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	need(fd >= 0 && write(fd, "content", 7) == 7 && !close(fd));
	need(!make_only("old", said, sizeof(said)));
	unplug();
	is(size_of("old"), 7, "a machine that does not start leaves its output file as it was");
	need(!make_only("new", said, sizeof(said)));
	is(size_of("new"), 0, "one that is not there is made");
	unplug();
	is(size_of("new"), -ENOENT, "and goes again");
	plug("new", -1);
	unplug();
	is(size_of("new"), 0, "unless the machine started");
	need(!make_only("gone", said, sizeof(said)) && !unlink("gone"));
	need(!link("old", "gone"));
	unplug();
	is(size_of("gone"), 7, "another file that has got its name stays");
	need(!symlink("target", "link"));
	plug("link", -1);
	out8(UART_TX, 'T');
	unplug();
	is(size_of("target"), 1, "a link to nothing makes what it names");

	need(!make_only("old", said, sizeof(said)));
	cfg = (struct serial_config){.output = (char[]){"old"}};
	is(serial_device.create(uart->vm, &cfg, 0, &d), -EBUSY,
	   "a second machine does not get the same file");
	unplug();
	fd = open("old", O_RDWR | O_CLOEXEC);
	need(fd >= 0 &&
	     !fcntl(fd, F_OFD_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET}));
	is(make_only("old", said, sizeof(said)), -EBUSY, "nor one that is a drive's image");
	ok(!strcmp(said, "wherry: error: serial: old is in use by another process or device: set "
			 "serial.output to another file\n"),
	   "in one line that says so");
	close(fd);
	is(size_of("old"), 7, "and its content is as it was");
	unlink("old");
	unlink("new");
	unlink("gone");
	unlink("link");
	unlink("target");
	need(!chdir("/") && !rmdir(dir));
}

/* With fd in the place of standard output. */
static void plug_stdout(int fd)
{
	int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

	need(saved >= 0);
	fflush(stdout);
	dup2(fd, STDOUT_FILENO);
	plug(NULL, -1);
	dup2(saved, STDOUT_FILENO);
	close(saved);
}

static void test_standard_output(void)
{
	char *text;
	int flags, log = memfd_create("log", MFD_CLOEXEC);

	need(!pipe2(out_pipe, O_CLOEXEC));
	plug_stdout(out_pipe[1]);
	flags = fcntl(out_pipe[1], F_GETFL);
	is(flags & O_NONBLOCK, 0, "the standard output of others stays as it was");
	ok(uart->tx_nonblock, "ours never blocks");
	out8(UART_TX, 'S');
	text = read_all(out_pipe[0], 1);
	is(text[0], 'S', "it gets what is sent");
	free(text);
	unplug();

	need(log >= 0 && write(log, "before ", 7) == 7);
	plug_stdout(log);
	out8(UART_TX, 'F');
	unplug();
	lseek(log, 0, SEEK_SET);
	text = read_all(log, 8);
	ok(!strcmp(text, "before F"), "a file that was begun by others is continued");
	free(text);
	close(log);
}

/* ---- input ---- */

/* As an interrupt handler: takes n bytes, waiting for the interrupt when there are none. */
static size_t receive(size_t n)
{
	size_t bad = 0;

	for (size_t i = 0; i < n; i++) {
		while (!(in8(UART_LSR) & UART_LSR_DR))
			if (!wait_irq())
				return SIZE_MAX;
		bad += in8(UART_RX) != (uint8_t)letter(i);
	}
	return bad;
}

static void *writer(void *arg)
{
	char *text = malloc(FLOOD);

	for (size_t i = 0; text && i < FLOOD; i++)
		text[i] = letter(i);
	for (size_t at = 0; text && at < FLOOD;) {
		ssize_t n = write(*(int *)arg, text + at, FLOOD - at);

		if (n <= 0)
			break;
		at += (size_t)n;
	}
	free(text);
	close(*(int *)arg);
	return NULL;
}

static void test_input(void)
{
	pthread_t thread;
	int p[2];

	need(!pipe2(p, O_CLOEXEC));
	plug_pipe(p[0]);
	need(!pthread_create(&thread, NULL, writer, &p[1]));
	out8(UART_FCR, UART_FCR_ENABLE_FIFO | UART_FCR_CLEAR_RCVR);
	out8(UART_IER, UART_IER_RDI);
	is(receive(FLOOD), 0, "a long input comes through whole, as fast as the guest takes it");
	need(!pthread_join(thread, NULL));
	is(in8(UART_LSR) & UART_LSR_DR, 0, "and then there is no more");
	is(vm_get_end(vm), VM_RUNNING, "its end does not end the machine");
	close(p[0]);
	unplug();
}

/* What was piped in waits for a driver to listen, and is not lost when that clears the FIFO first. */
static void test_early_input(void)
{
	int p[2];

	need(!pipe2(p, O_CLOEXEC) && write(p[1], "abcdefgh", 8) == 8);
	plug_pipe(p[0]);
	in8(UART_RX);
	out8(UART_FCR, UART_FCR_ENABLE_FIFO | UART_FCR_CLEAR_RCVR | UART_FCR_CLEAR_XMIT);
	in8(UART_RX);
	out8(UART_IER, UART_IER_RDI);
	is(receive(8), 0, "input from before the driver came is there when it listens");
	close(p[0]);
	close(p[1]);
	unplug();
}

static void test_file_input(void)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), fd = memfd_create("in", MFD_CLOEXEC);

	need(null >= 0 && fd >= 0);
	for (size_t i = 0; i < 5000; i++)
		need(write(fd, (char[]){letter(i)}, 1) == 1);
	lseek(fd, 0, SEEK_SET);
	plug_pipe(fd);
	out8(UART_IER, UART_IER_RDI);
	is(receive(5000), 0, "a file can be the input");
	unplug();
	plug_pipe(null);
	out8(UART_IER, UART_IER_RDI);
	out8(UART_TX, 'n');
	free(read_all(out_pipe[0], 1));
	is(in8(UART_LSR) & UART_LSR_DR, 0, "so can the null device, which has nothing");
	unplug();
	close(fd);
	close(null);
}

/* ---- a terminal ---- */

static int open_terminal(int *master)
{
	struct termios raw;
	int slave;

	*master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	need(*master >= 0 && !grantpt(*master) && !unlockpt(*master));
	slave = open(ptsname(*master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	need(slave >= 0 && !tcgetattr(slave, &raw));
	cfmakeraw(&raw);
	need(!tcsetattr(slave, TCSANOW, &raw));
	return slave;
}

static bool typed(int master, const char *keys, size_t n, const char *want)
{
	need(write(master, keys, n) == (ssize_t)n);
	for (; *want; want++)
		if (!wait_lsr(UART_LSR_DR) || in8(UART_RX) != (uint8_t)*want)
			return false;
	return !(in8(UART_LSR) & UART_LSR_DR);
}

static void test_terminal(void)
{
	int master, slave = open_terminal(&master);
	int64_t end = now_ms() + 10000;

	plug_pipe(slave);
	is(fcntl(slave, F_GETFL) & O_NONBLOCK, 0, "the terminal of others stays as it was");
	ok(typed(master, "ls\r", 3, "ls\r"), "what is typed arrives, listened for or not");
	ok(typed(master, "\001a.", 3, "\001."), "Ctrl-A a is Ctrl-A");
	ok(typed(master, "\001\001.", 3, "\001."), "so is Ctrl-A twice");
	ok(typed(master, "\001k", 2, "\001k"), "before another key it is itself");
	ok(typed(master, "x\003\032", 3, "x\003\032"),
	   "Ctrl-C, Ctrl-Z and a plain x are the guest's");
	is(vm_get_end(vm), VM_RUNNING, "none of them ends the machine");
	need(write(master, "\001", 1) == 1 && write(master, "x", 1) == 1);
	while (vm_get_end(vm) == VM_RUNNING && now_ms() < end)
		sched_yield();
	is(vm_get_end(vm), VM_USER, "Ctrl-A x does, also in two pieces");
	unplug();
	close(slave);
	close(master);
}

/* A hung guest takes nothing: typing goes on being read, so that the escape is seen. */
static void test_terminal_hung(void)
{
	int master, slave = open_terminal(&master);
	int64_t end = now_ms() + 10000;
	char line[1000];

	memset(line, 'z', sizeof(line));
	plug_pipe(slave);
	need(write(master, line, sizeof(line)) == sizeof(line) && write(master, "\001x", 2) == 2);
	while (vm_get_end(vm) == VM_RUNNING && now_ms() < end)
		sched_yield();
	is(vm_get_end(vm), VM_USER, "the escape works behind a thousand keys that nobody took");
	unplug();
	close(slave);

	slave = open_terminal(&master);
	plug_pipe(slave);
	close(slave);
	dup2(out_pipe[0], STDIN_FILENO);
	close(master);
	out8(UART_TX, 'h');
	free(read_all(out_pipe[0], 1));
	is(vm_get_end(vm), VM_RUNNING, "a terminal that is hung up does not end the machine");
	unplug();
}

static void all(const char *engine)
{
	printf("# %s\n", engine);
	setenv("WHERRY_ENGINE", engine, 1);
	test_thre();
	test_enable_later();
	test_flood();
	test_stalled();
	test_reader_gone();
	test_drained();
	test_file_output();
	test_standard_output();
	test_input();
	test_early_input();
	test_file_input();
	test_terminal();
	test_terminal_hung();
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	out_pipe[0] = out_pipe[1] = -1;
	test_registers();
	test_autoconfig();
	test_widths();
	test_bad_output();
	test_file_kept();
	all("epoll");
	all("uring");
	return done();
}
