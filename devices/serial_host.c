// SPDX-License-Identifier: Apache-2.0
/*
 * serial_host.c - the host's side of the serial port: descriptors that may block, vanish or end.
 *
 * The guest is never kept waiting inside an exit and never loses a byte it was not told about:
 * output goes into a ring that a thread of its own empties (hard case G3), input is read only while
 * there is room for it. A terminal or pipe that goes away is left alone, and the machine runs on
 * (G4, G6). Runs on the device's iothread; what vCPUs call says so. SIGPIPE has to be ignored.
 * A file gets its lock and loses its content as an image does: to one machine, and not before that is
 * known to start. Calls: loop.h, open, fcntl, ftruncate, unlink, poll, read, write.
 */
#include "serial.h"
#include "../vmm/vm.h"
#include <fcntl.h>
#include <limits.h>
#include <linux/serial_reg.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* A pipe that polls writable takes this much without blocking (POSIX: PIPE_BUF). */
#define TX_PIECE PIPE_BUF
/* Pieces before the thread looks at its other descriptors again (hard case A30). */
#define TX_BURST 16
/* At the end: how long a reader may make no progress. */
#define TX_PATIENCE_MS 1000
/* Input that is not typed stays in its pipe or file, but for this much. */
#define RX_AHEAD 64

#define KEY_PREFIX 0x01 /* Ctrl-A */

const struct syscall_rule serial_host_rules[1] = {
	{.nr = SYS_ppoll, .why = "whether an output that cannot be made non-blocking takes more"},
};

/* ---- output: vCPU side ---- */

bool serial_tx_ready(const struct serial *s)
{
	return s->tx_closed || SERIAL_TX_SIZE - s->tx_n >= UART_FIFO;
}

void serial_tx_put(struct serial *s, uint8_t b)
{
	if (s->tx_closed)
		return;
	if (s->tx_n == SERIAL_TX_SIZE) {
		/* The guest was told that the transmitter is busy, and goes on all the same. */
		s->tx_lost++;
		return;
	}
	s->tx[(s->tx_head + s->tx_n++) % SERIAL_TX_SIZE] = b;
	if (s->tx_awake)
		return;
	s->tx_awake = true;
	loop_post(s->io, &s->tx_work);
}

/* ---- output: iothread ---- */

/* The output has gone for good: the guest sees a transmitter that is always empty (G2). */
static void tx_close(struct serial *s, int err)
{
	errno = err;
	log_warn("%s: output, from here on it is dropped: %m", s->base.name);
	pthread_mutex_lock(&s->lock);
	s->tx_closed = true;
	s->tx_n = 0;
	s->thre_pending = true;
	serial_update(s);
	pthread_mutex_unlock(&s->lock);
	close_fd(&s->tx_fd);
}

/*
 * The longest piece of the ring to write now. vCPUs only append behind it, so it may be written
 * without the lock.
 */
static size_t tx_piece(struct serial *s)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	n = MIN(s->tx_n, SERIAL_TX_SIZE - s->tx_head);
	n = MIN(n, (unsigned)TX_PIECE);
	s->tx_awake = n > 0;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void tx_consume(struct serial *s, unsigned n)
{
	bool was_ready, lost;

	pthread_mutex_lock(&s->lock);
	was_ready = serial_tx_ready(s);
	s->tx_head = (s->tx_head + n) % SERIAL_TX_SIZE;
	s->tx_n -= n;
	if (!was_ready && serial_tx_ready(s)) {
		s->thre_pending = true;
		serial_update(s);
	}
	lost = s->tx_lost;
	pthread_mutex_unlock(&s->lock);
	/* Not said where it happens: the log may have the same reader, and a vCPU must not wait. */
	if (lost)
		log_once(&s->said_lost, LOG_WARN,
			 "%s: output was not read for a while: bytes are lost", s->base.name);
}

static bool tx_would_block(const struct serial *s)
{
	struct pollfd p = {.fd = s->tx_fd, .events = POLLOUT};
	const struct timespec now = {0};

	return !s->tx_nonblock && ppoll(&p, 1, &now, NULL) == 0;
}

/*
 * Writes one piece: 1; 0 when there is nothing more, or nowhere to write it; -EAGAIN when it would
 * block.
 */
static int tx_step(struct serial *s)
{
	size_t n = tx_piece(s);
	ssize_t w;

	if (!n || s->tx_fd < 0)
		return 0;
	if (tx_would_block(s))
		return -EAGAIN;
	w = write(s->tx_fd, s->tx + s->tx_head, n);
	if (w >= 0)
		tx_consume(s, (unsigned)w);
	else if (errno == EAGAIN)
		return -EAGAIN;
	else if (errno != EINTR)
		tx_close(s, errno);
	return 1;
}

static void tx_work(struct loop_work *work)
{
	struct serial *s = container_of(work, struct serial, tx_work);
	int r = 1;

	for (unsigned i = 0; i < TX_BURST && r == 1; i++)
		r = tx_step(s);
	if (r == 1)
		loop_post(s->io, work);
	else if (r == -EAGAIN)
		r = loop_watch(s->io, &s->tx_watch);
	/* What cannot be watched never blocks, so only want of memory ends here. */
	if (r < 0)
		tx_close(s, -r);
}

static void tx_writable(struct watch *w)
{
	struct serial *s = container_of(w, struct serial, tx_watch);

	loop_unwatch(s->io, w);
	tx_work(&s->tx_work);
}

/* ---- input: both sides, under the lock ---- */

/*
 * How much may be waiting. What is typed is read always, or the escape would not work when the
 * guest hangs; a pipe or file is read only while the guest listens, or a driver's clearing of the
 * receiver would swallow its beginning.
 */
static unsigned rx_limit(const struct serial *s)
{
	if (s->rx_terminal)
		return SERIAL_RX_SIZE;
	return s->ier & UART_IER_RDI ? RX_AHEAD : 0;
}

void serial_rx_resume(struct serial *s)
{
	/* Half empty, so that a reader of single bytes does not wake the iothread for each. */
	if (!s->rx_parked || !rx_limit(s) || s->rx_n > rx_limit(s) / 2)
		return;
	s->rx_parked = false;
	loop_post(s->io, &s->rx_work);
}

/* ---- input: iothread ---- */

/* Bytes that may be read now; with none, input is parked until serial_rx_resume(). */
static size_t rx_room(struct serial *s)
{
	size_t room = 0;

	pthread_mutex_lock(&s->lock);
	/* One is kept back: a Ctrl-A that was held comes with the byte after it. */
	if (s->rx_n + 1 < rx_limit(s))
		room = rx_limit(s) - s->rx_n - 1;
	/* The escape must be seen whatever the guest leaves unread or loops back: what has no room is dropped. */
	if (!room && s->rx_terminal)
		room = 1;
	s->rx_parked = !room;
	pthread_mutex_unlock(&s->lock);
	return room;
}

/*
 * Under the lock. Ctrl-A waits for the key after it; before any but x and a it is an ordinary byte.
 */
static void rx_key(struct serial *s, uint8_t key)
{
	if (!s->rx_prefix) {
		s->rx_prefix = key == KEY_PREFIX;
		if (!s->rx_prefix)
			serial_rx_put(s, key);
		return;
	}
	s->rx_prefix = false;
	if (key == 'x') {
		vm_set_end(s->vm, VM_USER, "escape");
		return;
	}
	serial_rx_put(s, KEY_PREFIX);
	if (key != 'a' && key != KEY_PREFIX)
		serial_rx_put(s, key);
}

static void rx_deliver(struct serial *s, const uint8_t *buf, size_t n)
{
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < n; i++) {
		if (s->rx_terminal)
			rx_key(s, buf[i]);
		else
			serial_rx_put(s, buf[i]);
	}
	/*
	 * New bytes are a new edge even if the line is high: should one have been lost, typing
	 * brings it back.
	 */
	s->line = false;
	serial_update(s);
	pthread_mutex_unlock(&s->lock);
}

/* End of file, or a terminal that was hung up: nothing comes any more, and that is all (G6). */
static void rx_close(struct serial *s)
{
	loop_unwatch(s->io, &s->rx_watch);
	close_fd(&s->rx_fd);
}

/* Reads once. False when there is nothing to wait for: parked, or ended. */
static bool rx_step(struct serial *s)
{
	uint8_t buf[256];
	size_t room = rx_room(s);
	ssize_t n;

	if (!room)
		return false;
	n = read(s->rx_fd, buf, MIN(room, sizeof(buf)));
	if (n > 0)
		rx_deliver(s, buf, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		rx_close(s);
	return s->rx_fd >= 0;
}

static void rx_readable(struct watch *w)
{
	struct serial *s = container_of(w, struct serial, rx_watch);

	if (!rx_step(s))
		loop_unwatch(s->io, w);
}

static void rx_work(struct loop_work *work)
{
	struct serial *s = container_of(work, struct serial, rx_work);
	int r;

	if (s->rx_fd < 0)
		return;
	r = loop_watch(s->io, &s->rx_watch);
	/*
	 * Files and the null device cannot be watched by epoll: they are always readable, piece by
	 * piece.
	 */
	if (r == -EPERM && rx_step(s))
		loop_post(s->io, work);
	else if (r && r != -EPERM)
		rx_close(s);
}

static int rx_begin(void *arg)
{
	struct serial *s = arg;

	rx_work(&s->rx_work);
	return 0;
}

/* ---- life ---- */

/*
 * A descriptor of our own for fd. O_NONBLOCK belongs to the open file, which a terminal or pipe
 * shares with other processes (the shell, for one): those are opened anew to set it for us
 * alone. Where that is refused, and for everything else, a duplicate has to do, and writes ask
 * poll first. -1 with errno.
 */
static int open_own(int fd, int mode)
{
	char path[32];
	struct stat st;
	int own = -1;

	if (fstat(fd, &st))
		return -1;
	if (S_ISFIFO(st.st_mode) || isatty(fd)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		own = open(path, mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	}
	if (own < 0)
		own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return own;
}

static const char *output_remedy(int err)
{
	if (err == ENXIO)
		return "start the fifo's reader first";
	if (err == EBADF)
		return "it is closed: set serial.output";
	return log_remedy(err, "check serial.output");
}

/* *made: there was nothing of that name. Emptied by serial_host_run(), not by O_TRUNC: the machine may not start. */
static int open_path(const char *path, bool *made)
{
	const int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd = open(path, flags);

	*made = false;
	if (fd >= 0 || errno != ENOENT)
		return fd;
	fd = open(path, flags | O_CREAT | O_EXCL, 0644);
	*made = fd >= 0;
	if (fd < 0 && errno == EEXIST) /* a link to what does not exist yet */
		fd = open(path, flags | O_CREAT, 0644);
	return fd;
}

/*
 * Two machines would write over each other, or one over a drive's image: it takes the lock that disk.c takes. Where there
 * are no locks, that is all there is to say.
 */
static int lock_output(const struct serial *s, const char *path)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (!fcntl(s->tx_fd, F_OFD_SETLK, &whole) || (errno != EAGAIN && errno != EACCES))
		return 0;
	log_err("%s: %s is in use by another process or device: set serial.output to another file",
		s->base.name, path);
	return -EBUSY;
}

static int claim_file(struct serial *s, const char *path, bool made)
{
	struct stat st;
	int r;

	if (fstat(s->tx_fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	r = lock_output(s, path);
	if (r)
		return r;
	s->tx_file = true;
	if (!made)
		return 0;
	s->tx_made = strdup(path);
	return s->tx_made ? 0 : -ENOMEM;
}

static int open_output(struct serial *s, const char *path)
{
	bool made = false;
	int fd = path ? open_path(path, &made) : open_own(STDOUT_FILENO, O_WRONLY);

	if (fd < 0) {
		int err = errno;

		log_err("%s: %s (%s): %m", s->base.name, path ? path : "standard output",
			output_remedy(err));
		return -err;
	}
	s->tx_fd = fd;
	s->tx_nonblock = fcntl(fd, F_GETFL) & O_NONBLOCK;
	return path ? claim_file(s, path, made) : 0;
}

int serial_host_open(struct serial *s, const struct serial_config *cfg)
{
	int r = open_output(s, cfg->output);

	if (r)
		return r;
	if (cfg->input)
		s->rx_fd = open_own(STDIN_FILENO, O_RDONLY);
	s->rx_terminal = s->rx_fd >= 0 && isatty(s->rx_fd);
	s->tx_work.fn = tx_work;
	s->rx_work.fn = rx_work;
	s->tx_watch = (struct watch){.fd = s->tx_fd, .kind = WATCH_WRITABLE, .ready = tx_writable};
	s->rx_watch = (struct watch){.fd = s->rx_fd, .kind = WATCH_READABLE, .ready = rx_readable};
	return iothread_create(&s->io, s->base.name, LOOP_AUTO, 8, s->base.type->syscalls);
}

int serial_host_run(struct serial *s)
{
	int r = iothread_start(s->io, rx_begin, s);

	if (r)
		return r;
	/* No vCPU runs yet, so nothing has been written. */
	if (s->tx_file && ftruncate(s->tx_fd, 0)) {
		log_err("%s: the output file cannot be emptied (set serial.output to another): %m",
			s->base.name);
		return -errno;
	}
	free(take_ptr(&s->tx_made));
	return 0;
}

/* The machine never ran. By its name, which may be another file's by now. */
static void remove_made(struct serial *s)
{
	struct stat ours, there;

	if (s->tx_made && !fstat(s->tx_fd, &ours) && !lstat(s->tx_made, &there) &&
	    ours.st_dev == there.st_dev && ours.st_ino == there.st_ino)
		unlink(s->tx_made);
	free(take_ptr(&s->tx_made));
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/*
 * The last words of a guest are the ones that matter (G5); a reader that has stopped reading
 * must not hold us here.
 */
static void tx_drain(struct serial *s)
{
	int64_t end = now_ms() + TX_PATIENCE_MS;
	int r = 1;

	while (r && now_ms() < end) {
		struct pollfd p = {.fd = s->tx_fd, .events = POLLOUT};

		r = tx_step(s);
		if (r == 1)
			end = now_ms() + TX_PATIENCE_MS;
		if (r == -EAGAIN)
			poll(&p, 1, (int)MAX(end - now_ms(), (int64_t)0));
	}
	if (s->tx_n)
		log_warn("%s: the reader has stopped: the last %u bytes of output are lost",
			 s->base.name, s->tx_n);
}

void serial_host_close(struct serial *s)
{
	iothread_destroy(s->io);
	s->io = NULL;
	tx_drain(s);
	if (s->tx_lost)
		log_warn("%s: %llu bytes of output were lost in all", s->base.name,
			 (unsigned long long)s->tx_lost);
	remove_made(s);
	close_fd(&s->tx_fd);
	close_fd(&s->rx_fd);
}
