// SPDX-License-Identifier: Apache-2.0
/*
 * boot.c - kernel image, initrd and command line into RAM.
 *
 * An image is recognised by its first bytes, its header is checked, the place it asks for is
 * checked against RAM, and only then is it read, straight into guest memory (boot_bzimage.c,
 * boot_elf.c). Here are the files, the places, the kinds that are refused by name, the initrd and
 * the command line. Runs on the main thread before any vCPU. Calls: mem.h, log.h.
 */
#include "boot_int.h"
#include "log.h"
#include "mem.h"
#include <assert.h>
#include <ctype.h>
#include <elf.h>
#include <sys/stat.h>

#define PAGE 4096u

static unsigned long long mib_up(uint64_t n)
{
	return (n >> 20) + !!(n & (MIB(1) - 1));
}

/* ---- files ---- */

static int file_init(struct boot_file *f, const char *what, const char *path, int fd)
{
	struct stat st;

	*f = (struct boot_file){.fd = fd, .what = what, .path = path};
	if (fstat(fd, &st) < 0) {
		log_err("%s %s: %m", what, path);
		return -EIO;
	}
	/*
	 * The parts are read at their offsets and the size is needed first: no pipe, socket or
	 * device can do that.
	 */
	if (!S_ISREG(st.st_mode)) {
		log_err("%s %s: not a regular file; store it in one first", what, path);
		return -ENOEXEC;
	}
	if (st.st_size == 0) {
		log_err("%s %s: the file is empty", what, path);
		return -ENOEXEC;
	}
	f->size = (uint64_t)st.st_size;
	return 0;
}

/*
 * The caller has checked the range against f->size, so an early end means that the file shrank
 * meanwhile.
 */
int boot_file_read(const struct boot_file *f, uint64_t off, void *dst, uint64_t n)
{
	uint8_t *p = dst;

	while (n > 0) {
		ssize_t got = pread(f->fd, p, n, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			log_err("%s %s: cannot be read: %m", f->what, f->path);
			return -EIO;
		}
		if (got == 0) {
			log_err("%s %s: became shorter while it was read", f->what, f->path);
			return -EIO;
		}
		p += got;
		off += (uint64_t)got;
		n -= (uint64_t)got;
	}
	return 0;
}

static int file_truncated(const struct boot_file *f, uint64_t need)
{
	log_err("%s %s: truncated: has %llu bytes of at least %llu; fetch it again", f->what,
		f->path, (unsigned long long)f->size, (unsigned long long)need);
	return -ENOEXEC;
}

/* Whether n bytes at off are in the file. */
int boot_file_check(const struct boot_file *f, uint64_t off, uint64_t n)
{
	uint64_t end;

	if (__builtin_add_overflow(off, n, &end))
		end = UINT64_MAX;
	return end <= f->size ? 0 : file_truncated(f, end);
}

int boot_kernel_refuse(const struct boot_loader *l, const char *why)
{
	log_err("%s %s: %s", l->kernel.what, l->kernel.path, why);
	return -ENOEXEC;
}

/* ---- where things may lie ---- */

static uint64_t low_end(const struct mem *mem)
{
	return mem->region[0].base + mem->region[0].len;
}

static int ram_too_small(const struct mem *mem, const struct boot_file *f, uint64_t end)
{
	log_err("%s %s: needs at least %llu MiB of RAM, the machine has %llu MiB; raise "
		"mem_size_mib",
		f->what, f->path, mib_up(end), (unsigned long long)(mem->total >> 20));
	return -ENOMEM;
}

/*
 * Whether the kernel can have [start, start + len). Below 1 MiB lie the boot parameters and the
 * tables. At and above MEM_LOW_END no amount of RAM would help, so that is the image's fault (hard
 * cases C7, C9).
 */
int boot_kernel_check(const struct boot_loader *l, uint64_t start, uint64_t len)
{
	const struct boot_file *f = &l->kernel;
	uint64_t end;

	if (__builtin_add_overflow(start, len, &end))
		end = UINT64_MAX;
	if (start < MIB(1) || end > MEM_LOW_END || len == 0) {
		log_err("%s %s: asks for addresses %#llx to %#llx, not between 1 MiB and %llu MiB; "
			"damaged, or not for this machine",
			f->what, f->path, (unsigned long long)start, (unsigned long long)end,
			mib_up(MEM_LOW_END));
		return -ENOEXEC;
	}
	return end <= low_end(l->mem) ? 0 : ram_too_small(l->mem, f, end);
}

/* n bytes of f into RAM. Both ranges were checked: a NULL span is our bug, not the image's. */
int boot_file_load(const struct boot_loader *l, const struct boot_file *f, uint64_t off,
		   uint64_t addr, uint64_t n)
{
	void *dst = mem_span(l->mem, GPA(addr), n);

	assert(dst);
	return boot_file_read(f, off, dst, n);
}

/* ---- every other kind of file, by name (hard case C13) ---- */

static const struct kind {
	unsigned off, len;
	const char *magic, *why;
} foreign_kinds[] = {
	/* These may begin with "MZ", so they come before it. */
	{0x38, 4, "ARM\x64", "an arm64 kernel; this machine is x86_64"},
	{0x38, 4, "RSC\x05", "a riscv kernel; this machine is x86_64"},
	{4, 4, "zimg", "an EFI zboot image; unpack the kernel in it first"},
	{0, 2, "MZ",
	 "an EFI program without a Linux boot header; take the kernel out of its .linux section"},
	{0, 2, "\x1f\x8b", "gzip-compressed; unpack it first (gunzip)"},
	{0, 6, "\xfd\x37zXZ\0", "xz-compressed; unpack it first (unxz)"},
	{0, 4, "\x28\xb5\x2f\xfd", "zstd-compressed; unpack it first (unzstd)"},
	{0, 3, "BZh", "bzip2-compressed; unpack it first (bunzip2)"},
	{0, 4, "\x02\x21\x4c\x18", "lz4-compressed; unpack it first (unlz4)"},
	{0, 4, "\x04\x22\x4d\x18", "lz4-compressed; unpack it first (unlz4)"},
	{0, 4, "\x27\x05\x19\x56", "a U-Boot image; take the kernel out of it first"},
	{0, 5, "07070", "a cpio archive; is it the initrd?"},
};

static int kernel_load(struct boot_loader *l)
{
	int err = boot_file_read(&l->kernel, 0, l->head,
				 MIN(l->kernel.size, (uint64_t)BOOT_HEAD_LEN));

	if (err)
		return err;
	if (boot_is_bzimage(l))
		return boot_load_bzimage(l);
	if (!memcmp(l->head, ELFMAG, SELFMAG))
		return boot_load_elf(l);
	for (unsigned i = 0; i < ARRAY_LEN(foreign_kinds); i++) {
		const struct kind *k = &foreign_kinds[i];

		if (!memcmp(l->head + k->off, k->magic, k->len))
			return boot_kernel_refuse(l, k->why);
	}
	return boot_kernel_refuse(
		l, "not a kernel image (neither bzImage nor ELF); damaged or truncated?");
}

/* ---- command line and initrd ---- */

static int cmdline_copy(const struct boot_loader *l, const char *cmdline)
{
	size_t len = strlen(cmdline), max = MIN(l->cmdline_max, sizeof(l->boot->cmdline) - 1);

	if (len > max) {
		log_err("kernel command line: %zu bytes long, %s takes %zu; shorten it", len,
			l->kernel.path, max);
		return -E2BIG;
	}
	memcpy(l->boot->cmdline, cmdline, len + 1);
	return 0;
}

/*
 * What would help: more RAM, or, where the kernel's own limit stands in the way, only a smaller
 * file.
 */
static int initrd_too_big(const struct boot_loader *l, const struct boot_file *f, uint64_t floor)
{
	uint64_t limit = MIN(l->initrd_end, MEM_LOW_END), end;

	if (!__builtin_add_overflow(floor, ALIGN_UP(f->size, PAGE), &end) &&
	    end <= ALIGN_DOWN(limit, PAGE))
		return ram_too_small(l->mem, f, end);
	log_err("%s %s: too large: its %llu MiB do not fit between this kernel's end at %#llx and "
		"its "
		"limit at %#llx; make it smaller",
		f->what, f->path, mib_up(f->size), (unsigned long long)floor,
		(unsigned long long)limit);
	return -ENOMEM;
}

/*
 * At the highest page below all limits: the kernel unpacks itself and its early data upwards from
 * below.
 */
static int initrd_load(const struct boot_loader *l, const char *path, int fd)
{
	uint64_t floor = ALIGN_UP(l->boot->kernel_end, PAGE);
	uint64_t top = ALIGN_DOWN(MIN(low_end(l->mem), l->initrd_end), PAGE);
	struct boot_file f;
	uint64_t addr;
	int err = file_init(&f, "initrd", path, fd);

	if (err)
		return err;
	if (top < floor || f.size > top - floor)
		return initrd_too_big(l, &f, floor);
	addr = ALIGN_DOWN(top - f.size, PAGE); /* not below floor, which is page aligned too */
	err = boot_file_load(l, &f, 0, addr, f.size);
	if (err)
		return err;
	l->boot->initrd_addr = addr;
	l->boot->initrd_size = f.size;
	return 0;
}

int boot_load(struct mem *mem, const struct boot_files *files, struct arch_boot *out)
{
	struct arch_boot boot = {0};
	struct boot_loader l = {.mem = mem, .boot = &boot};
	int err;

	err = file_init(&l.kernel, "kernel", files->kernel_path, files->kernel_fd);
	if (err)
		return err;
	err = kernel_load(&l);
	if (err)
		return err;
	err = cmdline_copy(&l, files->cmdline);
	if (err)
		return err;
	if (files->initrd_fd >= 0) {
		err = initrd_load(&l, files->initrd_path, files->initrd_fd);
		if (err)
			return err;
	}
	*out = boot;
	return 0;
}

/*
 * The word "--" where the kernel would see it (not between double quotes), or the end of the
 * string.
 */
static size_t cmdline_own_end(const char *s)
{
	bool quoted = false, word_start = true;
	size_t i;

	for (i = 0; s[i]; i++) {
		bool space = isspace((unsigned char)s[i]);

		if (word_start && !quoted && !strncmp(s + i, "--", 2) &&
		    (!s[i + 2] || isspace((unsigned char)s[i + 2])))
			break;
		if (s[i] == '"')
			quoted = !quoted;
		word_start = space;
	}
	return i;
}

int boot_cmdline_add(char *cmdline, size_t cap, const char *params)
{
	size_t at = cmdline_own_end(cmdline), len = strlen(cmdline), n = strlen(params);
	bool before = at > 0 && !isspace((unsigned char)cmdline[at - 1]), after = at < len;
	char *p = cmdline + at;

	if (n == 0)
		return 0;
	if (len + n + before + after >= cap)
		return -E2BIG;
	memmove(p + before + n + after, p, len - at + 1);
	if (before)
		*p++ = ' ';
	memcpy(p, params, n);
	if (after)
		p[n] = ' ';
	return 0;
}
