// SPDX-License-Identifier: Apache-2.0
/*
 * t_boot.c - images made in memory, good ones and every kind of bad one, loaded into RAM without
 * KVM. What is said on standard error is read too: a refusal must name the file and what to do.
 */
#include "tap.h"
#include "../vmm/boot.h"
#include "../vmm/mem.h"
#include <asm/bootparam.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>

#define SETUP_SECTS 3u
#define SETUP_LEN   ((SETUP_SECTS + 1) * 512)
#define CODE_LEN    0x3000u
#define HDR         0x1f1u

struct image {
	uint8_t *p;
	size_t n;
};

/* A boot with its arguments, and all that came of it. */
struct trial {
	uint64_t ram;
	struct image kernel;
	int kernel_fd; /* used instead of kernel if not 0 */
	int initrd_fd; /* 0: none */
	const char *cmdline;

	struct mem *mem;
	struct arch_boot boot;
	int err;
	char said[1024];
};

static int memory_file(const void *p, size_t n)
{
	int fd = memfd_create("t_boot", MFD_CLOEXEC);

	need(fd >= 0 && (n == 0 || pwrite(fd, p, n, 0) == (ssize_t)n));
	return fd;
}

/* Everything from the call to the end of it that went to standard error. */
static void run(struct trial *t)
{
	int said = memory_file(NULL, 0), saved = dup(2), kernel_fd = t->kernel_fd;
	ssize_t n;

	need(saved >= 0 && mem_create(&t->mem, t->ram ? t->ram : MIB(64), MEM_PAGES_SMALL) == 0);
	if (!kernel_fd)
		kernel_fd = memory_file(t->kernel.p, t->kernel.n);
	dup2(said, 2);
	t->err = boot_load(t->mem,
			   &(struct boot_files){.kernel_fd = kernel_fd,
						.initrd_fd = t->initrd_fd ? t->initrd_fd : -1,
						.kernel_path = "K.img",
						.initrd_path = "I.img",
						.cmdline = t->cmdline ? t->cmdline : ""},
			   &t->boot);
	dup2(saved, 2);
	n = pread(said, t->said, sizeof(t->said) - 1, 0);
	t->said[n > 0 ? n : 0] = 0;
	close(saved);
	close(said);
	close(kernel_fd);
	if (t->initrd_fd)
		close(t->initrd_fd);
}

static void fini(struct trial *t)
{
	mem_destroy(t->mem);
	free(t->kernel.p);
}

static unsigned lines(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

/* Refused with err, in one line that has the words, and *out untouched. */
static void refused(struct trial t, int err, const char *words, const char *name)
{
	static const struct arch_boot untouched;

	run(&t);
	if (!ok(t.err == err && lines(t.said) == 1 && strstr(t.said, words) &&
			!memcmp(&t.boot, &untouched, sizeof(untouched)),
		"%s", name))
		printf("#   %d, said: %s\n", t.err, t.said);
	fini(&t);
}

static bool ram_is(const struct trial *t, uint64_t addr, const void *p, size_t n)
{
	const void *ram = mem_span(t->mem, GPA(addr), n);

	return ram && !memcmp(ram, p, n);
}

/* ---- bzImage ---- */

static struct setup_header *hdr_of(struct image *im)
{
	return (struct setup_header *)(im->p + HDR);
}

/* Like Debian's: relocatable, wants 16 MiB, 8 MiB from there. Code bytes differ from each other. */
static struct image bzimage(void)
{
	struct image im = {.n = SETUP_LEN + CODE_LEN};
	struct setup_header *hdr;

	im.p = calloc(1, im.n + 64); /* + what a test appends */
	need(im.p);
	memset(im.p + 0x26c, 0xee,
	       SETUP_LEN - 0x26c); /* code after the header: must not be taken for it */
	for (size_t i = 0; i < CODE_LEN; i++)
		im.p[SETUP_LEN + i] = (uint8_t)(i * 7 + (i >> 8));
	hdr = hdr_of(&im);
	*hdr = (struct setup_header){.setup_sects = SETUP_SECTS,
				     .syssize = CODE_LEN / 16,
				     .boot_flag = 0xaa55,
				     .jump = 0x6aeb, /* to 0x26c */
				     .version = 0x020f,
				     .loadflags = LOADED_HIGH,
				     .initrd_addr_max = 0x7fffffff,
				     .kernel_alignment = 0x200000,
				     .relocatable_kernel = 1,
				     .min_alignment = 21,
				     .xloadflags = XLF_KERNEL_64 | XLF_CAN_BE_LOADED_ABOVE_4G,
				     .cmdline_size = 100,
				     .pref_address = MIB(16),
				     .init_size = MIB(8)};
	memcpy(&hdr->header, "HdrS", 4);
	return im;
}

static void test_bzimage(void)
{
	struct trial t = {.kernel = bzimage(), .cmdline = "console=ttyS0"};
	struct setup_header hdr;

	run(&t);
	memcpy(&hdr, t.boot.setup_header, sizeof(hdr));
	ok(t.err == 0 && t.said[0] == 0, "a bzImage is loaded without a word");
	ok(t.boot.entry == ARCH_ENTRY_LINUX64 && t.boot.entry_addr == MIB(16) + 0x200,
	   "it is entered 0x200 after its preferred address");
	ok(t.boot.kernel_start == MIB(16) && t.boot.kernel_end == MIB(24),
	   "it takes init_size bytes");
	ok(ram_is(&t, MIB(16), t.kernel.p + SETUP_LEN, CODE_LEN),
	   "its code is there byte for byte");
	is(t.boot.setup_header_len, 0x26c - 0x1f1, "the header is as long as the image says");
	ok(hdr.type_of_loader == 0xff && (hdr.loadflags & CAN_USE_HEAP) &&
		   (hdr.loadflags & LOADED_HIGH) && hdr.code32_start == MIB(16),
	   "the loader's fields are filled in");
	ok(hdr.cmdline_size == 100 && hdr.pref_address == MIB(16),
	   "the image's own fields are kept");
	ok(t.boot.setup_header[0x26c - 0x1f1] == 0, "what follows the header is not copied");
	ok(!strcmp(t.boot.cmdline, "console=ttyS0"), "the command line is there");
	ok(t.boot.initrd_size == 0 && t.boot.initrd_addr == 0, "there is no initrd");
	fini(&t);
}

static void test_bzimage_header(void)
{
	struct trial t = {.kernel = bzimage()};

	t.kernel.p[0x201] = 0x264 - 0x202; /* ends before handover_offset */
	hdr_of(&t.kernel)->handover_offset = 0x12345678;
	hdr_of(&t.kernel)->setup_sects = 0;
	t.kernel.p = realloc(t.kernel.p, 5 * 512 + CODE_LEN);
	need(t.kernel.p);
	memmove(t.kernel.p + 5 * 512, t.kernel.p + SETUP_LEN, CODE_LEN);
	t.kernel.n = 5 * 512 + CODE_LEN;
	run(&t);
	ok(t.err == 0 && t.boot.setup_header_len == 0x264 - 0x1f1 &&
		   t.boot.setup_header[0x264 - 0x1f1] == 0,
	   "a shorter header is copied up to its end only");
	ok(ram_is(&t, MIB(16), t.kernel.p + 5 * 512, CODE_LEN), "setup_sects 0 means 4");
	fini(&t);

	t = (struct trial){.kernel = bzimage()};
	t.kernel.p[0x201] = 0xff;
	run(&t);
	ok(t.err == 0 && t.boot.setup_header_len == sizeof(t.boot.setup_header),
	   "a longer header than boot_params has room for is cut");
	fini(&t);

	t = (struct trial){.kernel = bzimage()};
	memset(t.kernel.p + t.kernel.n, 0x55, 64);
	t.kernel.n += 64;
	run(&t);
	ok(t.err == 0 && ram_is(&t, MIB(16) + CODE_LEN, (uint8_t[64]){0}, 64),
	   "a signature after the code is not loaded");
	fini(&t);
}

static void test_bzimage_address(void)
{
	struct trial t = {.kernel = bzimage()};

	hdr_of(&t.kernel)->pref_address = MIB(17) + 0x1000;
	run(&t);
	ok(t.err == 0 && t.boot.kernel_start == MIB(18),
	   "a relocatable kernel is aligned as it asks");
	fini(&t);

	t = (struct trial){.kernel = bzimage()};
	hdr_of(&t.kernel)->pref_address = MIB(17) + 0x1000;
	hdr_of(&t.kernel)->relocatable_kernel = 0;
	run(&t);
	ok(t.err == 0 && t.boot.kernel_start == MIB(17) + 0x1000,
	   "one that is not goes to its very address");
	fini(&t);

	t = (struct trial){.kernel = bzimage()};
	hdr_of(&t.kernel)->pref_address = 0;
	run(&t);
	ok(t.err == 0 && t.boot.kernel_start == MIB(2),
	   "without a preferred address it is the first aligned one from 1 MiB");
	fini(&t);

	t = (struct trial){.kernel = bzimage()};
	hdr_of(&t.kernel)->init_size = 0x1000;
	run(&t);
	is(t.boot.kernel_end - t.boot.kernel_start, CODE_LEN,
	   "an init_size shorter than the code does not hide the code's end");
	fini(&t);
}

/* The header of a good image with one thing changed by the caller through this. */
#define BZ_REFUSED(change, err, words, name)                   \
	do {                                                   \
		struct trial bad_ = {.kernel = bzimage()};     \
		struct setup_header *h = hdr_of(&bad_.kernel); \
		change;                                        \
		(void)h;                                       \
		refused(bad_, err, words, name);               \
	} while (0)

static void test_bzimage_refused(void)
{
	BZ_REFUSED(h->version = 0x020b, -ENOEXEC, "K.img: boot protocol older",
		   "protocol 2.11 is too old");
	BZ_REFUSED(h->xloadflags = 0, -ENOEXEC, "K.img: a 32-bit kernel",
		   "a 32-bit bzImage is named");
	BZ_REFUSED(h->syssize = 0, -ENOEXEC, "damaged", "a header without a size is refused");
	BZ_REFUSED(h->syssize = 0xffffffff, -ENOEXEC, "truncated", "and one with a size of 64 GiB");
	BZ_REFUSED(h->init_size = 0, -ENOEXEC, "damaged", "and one without init_size");
	BZ_REFUSED(h->kernel_alignment = 0, -ENOEXEC, "kernel_alignment",
		   "and one with alignment 0");
	BZ_REFUSED(h->kernel_alignment = 0x300000, -ENOEXEC, "kernel_alignment", "and with 3 MiB");
	BZ_REFUSED(h->pref_address = 0x7000; h->relocatable_kernel = 0, -ENOEXEC, "damaged",
					     "a kernel over the boot parameters is refused");
	BZ_REFUSED(h->pref_address = UINT64_MAX - 0xfff; h->relocatable_kernel = 0, -ENOEXEC,
							 "damaged",
							 "and one at the end of the address space");
	BZ_REFUSED(h->pref_address = UINT64_MAX - 0xfff, -ENOEXEC, "damaged",
		   "and one whose aligned address wraps");
	BZ_REFUSED(h->pref_address = GIB(3) - MIB(4), -ENOEXEC, "damaged",
		   "and one that would reach into the hole below 4 GiB");
	BZ_REFUSED(h->pref_address = GIB(4), -ENOEXEC, "damaged", "and one above 4 GiB");
	BZ_REFUSED(bad_.ram = MIB(16), -ENOMEM, "at least 24 MiB of RAM, the machine has 16 MiB",
		   "a kernel larger than RAM says how much it needs");
	BZ_REFUSED(bad_.ram = MIB(24) - 0x1000, -ENOMEM, "at least 24 MiB",
		   "a page less is too little");
	BZ_REFUSED(h->init_size = MIB(8) + 1;
		   bad_.ram = MIB(24), -ENOMEM, "at least 25 MiB", "a byte more is too much");
	BZ_REFUSED(h->init_size = 0xffffffff, -ENOEXEC, "damaged",
		   "an init_size of 4 GiB is refused");
}

static void test_bzimage_fits(void)
{
	struct trial t = {.ram = MIB(24), .kernel = bzimage()};

	run(&t);
	is(t.err, 0, "a kernel that ends where RAM ends is loaded");
	fini(&t);
}

/*
 * At every length up to the end there is one line and -ENOEXEC, whatever the file looks like by
 * then.
 */
static void test_bzimage_truncated(void)
{
	static const size_t cuts[] = {1,
				      2,
				      0x38,
				      0x1ff,
				      0x202,
				      0x206,
				      0x208,
				      0x236,
				      0x26b,
				      0x26c,
				      SETUP_LEN,
				      SETUP_LEN + 0x200,
				      SETUP_LEN + CODE_LEN - 1};

	for (unsigned i = 0; i < ARRAY_LEN(cuts); i++) {
		struct trial t = {.kernel = bzimage()};
		char name[64];

		t.kernel.n = cuts[i];
		snprintf(name, sizeof(name), "a bzImage cut after %zu bytes is refused", cuts[i]);
		refused(t, -ENOEXEC, cuts[i] >= 0x208 ? "K.img: truncated" : "K.img: ", name);
	}
}

/* ---- ELF ---- */

#define ELF_LEN  0x3000u
#define ELF_NOTE 0x200u

struct elf_image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[3];
};

static struct elf_image *elf_of(struct image *im)
{
	return (struct elf_image *)(void *)im->p;
}

/*
 * Text at 16 MiB, data with bss at 18 MiB, and a segment of notes (empty unless a test fills it).
 */
static struct image elf_image(void)
{
	struct image im = {.p = calloc(1, ELF_LEN), .n = ELF_LEN};
	struct elf_image *e = elf_of(&im);

	need(im.p);
	memset(im.p + 0x1000, 0xaa, 0x1000);
	memset(im.p + 0x2000, 0xbb, 0x1000);
	e->eh = (Elf64_Ehdr){.e_type = ET_EXEC,
			     .e_machine = EM_X86_64,
			     .e_entry = MIB(16) + 0x40,
			     .e_phoff = sizeof(e->eh),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 3};
	memcpy(e->eh.e_ident, ELFMAG, SELFMAG);
	e->eh.e_ident[EI_CLASS] = ELFCLASS64;
	e->eh.e_ident[EI_DATA] = ELFDATA2LSB;
	e->ph[0] = (Elf64_Phdr){.p_type = PT_LOAD,
				.p_offset = 0x1000,
				.p_vaddr = 0xffffffff81000000,
				.p_paddr = MIB(16),
				.p_filesz = 0x1000,
				.p_memsz = 0x1000};
	e->ph[1] = (Elf64_Phdr){.p_type = PT_LOAD,
				.p_offset = 0x2000,
				.p_paddr = MIB(18),
				.p_filesz = 0xf00,
				.p_memsz = MIB(1)};
	e->ph[2] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = ELF_NOTE, .p_align = 4};
	return im;
}

/* Appends a note to the segment of notes. */
static void add_note(struct image *im, const char *owner, uint32_t type, const void *desc,
		     uint32_t n)
{
	Elf64_Phdr *ph = &elf_of(im)->ph[2];
	uint8_t *p = im->p + ph->p_offset + ph->p_filesz;
	Elf64_Nhdr nh = {.n_namesz = (uint32_t)strlen(owner) + 1, .n_descsz = n, .n_type = type};
	uint64_t align = ph->p_align;

	memcpy(p, &nh, sizeof(nh));
	memcpy(p + sizeof(nh), owner, nh.n_namesz);
	memcpy(p + sizeof(nh) + ALIGN_UP(nh.n_namesz, align), desc, n);
	ph->p_filesz += sizeof(nh) + ALIGN_UP(nh.n_namesz, align) + ALIGN_UP(n, align);
}

static void test_elf(void)
{
	struct trial t = {.kernel = elf_image()};
	uint8_t zero[0x100] = {0};

	run(&t);
	ok(t.err == 0 && t.said[0] == 0, "an ELF vmlinux is loaded without a word");
	ok(t.boot.entry == ARCH_ENTRY_LINUX64 && t.boot.entry_addr == MIB(16) + 0x40,
	   "without a PVH note it has its 64-bit entry");
	ok(t.boot.kernel_start == MIB(16) && t.boot.kernel_end == MIB(19),
	   "its end includes the bss");
	ok(ram_is(&t, MIB(16), t.kernel.p + 0x1000, 0x1000) &&
		   ram_is(&t, MIB(18), t.kernel.p + 0x2000, 0xf00) &&
		   ram_is(&t, MIB(18) + 0xf00, zero, sizeof(zero)),
	   "segments lie at their physical addresses and the bss is zero");
	is(t.boot.setup_header_len, 0, "it has no setup header");
	fini(&t);
}

static void test_elf_pvh(void)
{
	const uint64_t entry64 = MIB(16) + 0x80;
	const uint32_t entry32 = MIB(16) + 0xc0, value = 1;
	struct trial t = {.kernel = elf_image()};

	add_note(&t.kernel, "GNU", 18, &value, 4);
	add_note(&t.kernel, "Linux", 257, "abc", 3);
	add_note(&t.kernel, "Xen", 3, &entry64, 8);
	add_note(&t.kernel, "Xen", 18, &entry64, 8);
	run(&t);
	ok(t.err == 0 && t.boot.entry == ARCH_ENTRY_PVH32 && t.boot.entry_addr == entry64,
	   "the PVH note is found behind others and its entry preferred");
	fini(&t);

	t = (struct trial){.kernel = elf_image()};
	elf_of(&t.kernel)->ph[2].p_align = 8;
	add_note(&t.kernel, "Linux", 1, &value, 1);
	add_note(&t.kernel, "Xen", 18, &entry32, 4);
	run(&t);
	ok(t.err == 0 && t.boot.entry == ARCH_ENTRY_PVH32 && t.boot.entry_addr == entry32,
	   "a 4-byte entry in notes aligned to 8 as well");
	fini(&t);

	t = (struct trial){.kernel = elf_image()};
	add_note(&t.kernel, "Xen", 18, &entry64, 8);
	elf_of(&t.kernel)->ph[2].p_filesz -= 8;
	run(&t);
	ok(t.err == 0 && t.boot.entry == ARCH_ENTRY_LINUX64,
	   "a note that its segment cuts off is none");
	fini(&t);

	t = (struct trial){.kernel = elf_image()};
	memset(t.kernel.p + ELF_NOTE, 0xff, 0x100);
	elf_of(&t.kernel)->ph[2].p_filesz = 0x100;
	run(&t);
	ok(t.err == 0 && t.boot.entry == ARCH_ENTRY_LINUX64,
	   "notes of 4 GiB lengths end the search");
	fini(&t);
}

#define ELF_REFUSED(change, err, words, name)                \
	do {                                                 \
		struct trial bad_ = {.kernel = elf_image()}; \
		struct elf_image *e = elf_of(&bad_.kernel);  \
		change;                                      \
		(void)e;                                     \
		refused(bad_, err, words, name);             \
	} while (0)

static void test_elf_refused(void)
{
	const uint64_t outside = GIB(1);

	ELF_REFUSED(e->eh.e_machine = EM_AARCH64, -ENOEXEC, "K.img: an ELF file for arm64",
		    "an arm64 vmlinux is named");
	ELF_REFUSED(e->eh.e_machine = EM_386; e->eh.e_ident[EI_CLASS] = ELFCLASS32, -ENOEXEC,
					      "32-bit x86", "an i386 vmlinux is named");
	ELF_REFUSED(e->eh.e_ident[EI_CLASS] = ELFCLASS32, -ENOEXEC, "32-bit ELF",
		    "an x32 program is refused");
	ELF_REFUSED(e->eh.e_ident[EI_DATA] = ELFDATA2MSB, -ENOEXEC, "big-endian",
		    "a big-endian one is named");
	ELF_REFUSED(e->eh.e_type = ET_REL, -ENOEXEC, "not an executable",
		    "an object file is refused");
	ELF_REFUSED(e->eh.e_phnum = 0, -ENOEXEC, "program headers", "no program headers");
	ELF_REFUSED(e->eh.e_phnum = 0xffff, -ENOEXEC, "program headers", "65535 program headers");
	ELF_REFUSED(e->eh.e_phentsize = 32, -ENOEXEC, "program headers",
		    "program headers of another size");
	ELF_REFUSED(e->eh.e_phoff = UINT64_MAX - 8, -ENOEXEC, "truncated",
		    "program headers beyond all");
	ELF_REFUSED(e->eh.e_phoff = ELF_LEN - 60, -ENOEXEC, "truncated", "program headers cut off");
	ELF_REFUSED(e->ph[0].p_type = e->ph[1].p_type = PT_NULL, -ENOEXEC, "without a loadable",
		    "nothing to load");
	ELF_REFUSED(e->ph[1].p_filesz = MIB(2), -ENOEXEC, "longer in the file",
		    "a segment longer in the file than in memory");
	ELF_REFUSED(e->ph[1].p_offset = ELF_LEN - 0xeff, -ENOEXEC, "truncated",
		    "a segment cut off");
	ELF_REFUSED(e->ph[1].p_offset = UINT64_MAX - 2, -ENOEXEC, "truncated",
		    "a segment that wraps");
	ELF_REFUSED(e->ph[2].p_offset = ELF_LEN;
		    e->ph[2].p_filesz = 4, -ENOEXEC, "truncated", "notes cut off");
	ELF_REFUSED(e->ph[0].p_paddr = 0x8000, -ENOEXEC, "not between 1 MiB",
		    "a segment over the boot parameters");
	ELF_REFUSED(e->ph[0].p_paddr = 0xffffffff81000000, -ENOEXEC, "not between 1 MiB",
		    "a segment at a virtual address");
	ELF_REFUSED(e->ph[1].p_memsz = UINT64_MAX - 4, -ENOEXEC, "not between 1 MiB",
		    "a segment longer than the address space");
	ELF_REFUSED(e->ph[1].p_memsz = MIB(100), -ENOMEM,
		    "at least 118 MiB of RAM, the machine has 64",
		    "a bss larger than RAM says how much is needed");
	ELF_REFUSED(e->eh.e_entry = MIB(19), -ENOEXEC, "entry point", "an entry behind the kernel");
	ELF_REFUSED(add_note(&bad_.kernel, "Xen", 18, &outside, 8), -ENOEXEC, "entry point",
		    "a PVH entry outside");
}

static void test_elf_truncated(void)
{
	static const size_t cuts[] = {5, 0x13, 63, 64, 64 + 56 * 3 - 1, 0x1000, 0x2000, 0x2eff};

	for (unsigned i = 0; i < ARRAY_LEN(cuts); i++) {
		struct trial t = {.kernel = elf_image()};
		char name[64];

		t.kernel.n = cuts[i];
		snprintf(name, sizeof(name), "an ELF file cut after %zu bytes is refused", cuts[i]);
		refused(t, -ENOEXEC, "K.img: truncated", name);
	}
}

/* ---- other files ---- */

static struct trial file_with(size_t at, const char *magic, size_t n)
{
	struct trial t = {.kernel = {.p = calloc(1, 4096), .n = 4096}};

	need(t.kernel.p);
	memcpy(t.kernel.p + at, magic, n);
	return t;
}

static void test_kinds(void)
{
	struct trial t = file_with(0x38, "ARM\x64", 4);

	memcpy(t.kernel.p, "MZ", 2);
	refused(t, -ENOEXEC, "K.img: an arm64 kernel; this machine is x86_64",
		"an arm64 Image is named");
	refused(file_with(0x38, "RSC\x05", 4), -ENOEXEC, "riscv", "a riscv Image is named");
	refused(file_with(0, "\x1f\x8b\x08", 3), -ENOEXEC, "gunzip",
		"a gzip file is named with its remedy");
	refused(file_with(0, "\xfd\x37zXZ\0", 6), -ENOEXEC, "unxz", "an xz file");
	refused(file_with(0, "\x28\xb5\x2f\xfd", 4), -ENOEXEC, "unzstd", "a zstd file");
	refused(file_with(0, "BZh9", 4), -ENOEXEC, "bunzip2", "a bzip2 file");
	refused(file_with(0, "\x02\x21\x4c\x18", 4), -ENOEXEC, "unlz4", "an lz4 file");
	refused(file_with(0, "MZ\0\0zimg", 8), -ENOEXEC, "zboot", "an EFI zboot image");
	refused(file_with(0, "MZ", 2), -ENOEXEC, ".linux section", "a unified kernel image");
	refused(file_with(0, "\x27\x05\x19\x56", 4), -ENOEXEC, "U-Boot", "a U-Boot image");
	refused(file_with(0, "070701", 6), -ENOEXEC, "initrd?", "an initrd in the kernel's place");
	refused(file_with(0, "#!/bin/sh", 9), -ENOEXEC, "not a kernel image", "anything else");
	t = file_with(0, "\x1f\x8b", 2);
	t.kernel.n = 2;
	refused(t, -ENOEXEC, "gunzip", "even if it is two bytes long");
}

/* Opened for writing only, so that even root cannot read it. */
static int unreadable(void)
{
	char path[] = "/tmp/t_boot.XXXXXX";
	int made = mkstemp(path), fd;

	need(made >= 0 && ftruncate(made, 4096) == 0);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	unlink(path);
	close(made);
	need(fd >= 0);
	return fd;
}

static void test_files(void)
{
	int pipe_fd[2];

	refused((struct trial){0}, -ENOEXEC, "kernel K.img: the file is empty", "an empty kernel");
	need(pipe(pipe_fd) == 0);
	refused((struct trial){.kernel_fd = pipe_fd[0]}, -ENOEXEC, "not a regular file", "a pipe");
	close(pipe_fd[1]);
	refused((struct trial){.kernel_fd = open("/", O_RDONLY | O_DIRECTORY)}, -ENOEXEC,
		"not a regular file", "a directory");
	refused((struct trial){.kernel_fd = unreadable()}, -EIO, "kernel K.img: cannot be read",
		"an unreadable kernel");
	refused((struct trial){.kernel = bzimage(), .initrd_fd = memory_file(NULL, 0)}, -ENOEXEC,
		"initrd I.img: the file is empty", "an empty initrd");
	need(pipe(pipe_fd) == 0);
	refused((struct trial){.kernel = bzimage(), .initrd_fd = pipe_fd[0]}, -ENOEXEC,
		"initrd I.img: not a regular file", "an initrd from a pipe");
	close(pipe_fd[1]);
}

/* ---- initrd ---- */

/* size bytes, sparse, with marks at both ends. */
static int initrd(uint64_t size)
{
	int fd = memory_file("begin", 5);

	need(ftruncate(fd, (off_t)size) == 0 && pwrite(fd, "end", 3, (off_t)size - 3) == 3);
	return fd;
}

static bool initrd_is(const struct trial *t, uint64_t size)
{
	return t->err == 0 && t->boot.initrd_size == size &&
	       IS_ALIGNED(t->boot.initrd_addr, 4096) &&
	       ram_is(t, t->boot.initrd_addr, "begin", 5) &&
	       ram_is(t, t->boot.initrd_addr + size - 3, "end", 3);
}

static void test_initrd(void)
{
	struct trial t = {.kernel = bzimage(), .initrd_fd = initrd(5000)};

	run(&t);
	ok(initrd_is(&t, 5000) && t.boot.initrd_addr == MIB(64) - 8192,
	   "an initrd lies in the highest pages of RAM");
	fini(&t);

	t = (struct trial){.kernel = bzimage(), .initrd_fd = initrd(MIB(200)), .ram = MIB(512)};
	run(&t);
	ok(initrd_is(&t, MIB(200)) && t.boot.initrd_addr == MIB(312), "one of 200 MiB too");
	fini(&t);

	t = (struct trial){.kernel = bzimage(), .initrd_fd = initrd(5000)};
	hdr_of(&t.kernel)->initrd_addr_max = MIB(40) + 0x7ff;
	run(&t);
	ok(initrd_is(&t, 5000) && t.boot.initrd_addr == MIB(40) - 8192,
	   "it stays below the kernel's initrd_addr_max");
	fini(&t);

	t = (struct trial){.kernel = bzimage(), .initrd_fd = initrd(4096), .ram = GIB(5)};
	hdr_of(&t.kernel)->initrd_addr_max = 0xffffffff;
	run(&t);
	ok(initrd_is(&t, 4096) && t.boot.initrd_addr == GIB(3) - 4096,
	   "with RAM above 4 GiB it stays below the hole");
	fini(&t);

	t = (struct trial){.kernel = elf_image(), .initrd_fd = initrd(4096), .ram = GIB(5)};
	run(&t);
	ok(initrd_is(&t, 4096) && t.boot.initrd_addr == GIB(3) - 4096, "for an ELF kernel as well");
	fini(&t);
}

static void test_initrd_fit(void)
{
	struct trial t = {.kernel = bzimage(), .initrd_fd = initrd(MIB(40))};

	run(&t);
	ok(initrd_is(&t, MIB(40)) && t.boot.initrd_addr == t.boot.kernel_end,
	   "an initrd may fill all between the kernel's init_size and the end");
	fini(&t);
	refused((struct trial){.kernel = bzimage(), .initrd_fd = initrd(MIB(40) + 1)}, -ENOMEM,
		"initrd I.img: needs at least 65 MiB of RAM, the machine has 64 MiB",
		"a byte more does not fit, and it says how much RAM would do");

	t = (struct trial){.kernel = bzimage(), .initrd_fd = initrd(MIB(40))};
	hdr_of(&t.kernel)->init_size += 1;
	refused(t, -ENOMEM, "at least 65 MiB", "nor does a kernel a byte longer leave room");

	t = (struct trial){.kernel = bzimage(), .initrd_fd = initrd(MIB(30))};
	hdr_of(&t.kernel)->initrd_addr_max = MIB(50) - 1;
	refused(t, -ENOMEM, "make it smaller",
		"where initrd_addr_max is in the way RAM is no remedy");

	t = (struct trial){.kernel = bzimage(), .initrd_fd = initrd(4096)};
	hdr_of(&t.kernel)->initrd_addr_max = MIB(10);
	refused(t, -ENOMEM, "make it smaller", "a limit below the kernel is no place");
	refused((struct trial){.kernel = bzimage(), .initrd_fd = initrd(GIB(5)), .ram = GIB(6)},
		-ENOMEM, "make it smaller", "an initrd of 5 GiB fits nowhere");
}

/* ---- command line ---- */

static void test_cmdline_size(void)
{
	char line[5000];
	struct trial t;

	memset(line, 'x', sizeof(line));
	line[100] = 0;
	t = (struct trial){.kernel = bzimage(), .cmdline = line};
	run(&t);
	ok(t.err == 0 && !strcmp(t.boot.cmdline, line),
	   "a command line of cmdline_size bytes is taken");
	fini(&t);
	line[100] = 'x';
	line[101] = 0;
	refused((struct trial){.kernel = bzimage(), .cmdline = line}, -E2BIG,
		"kernel command line: 101 bytes long, K.img takes 100", "one byte more is refused");

	line[101] = 'x';
	line[2047] = 0;
	t = (struct trial){.kernel = elf_image(), .cmdline = line};
	run(&t);
	ok(t.err == 0 && strlen(t.boot.cmdline) == 2047, "an ELF kernel takes 2047 bytes");
	fini(&t);
	line[2047] = 'x';
	line[2048] = 0;
	refused((struct trial){.kernel = elf_image(), .cmdline = line}, -E2BIG, "takes 2047",
		"one byte more is refused, as it would be cut off");

	line[2048] = 'x';
	line[4096] = 0;
	t = (struct trial){.kernel = bzimage(), .cmdline = line};
	hdr_of(&t.kernel)->cmdline_size = 0xffffffff;
	refused(t, -E2BIG, "takes 4095", "however much the image claims to take");
}

static void adds(const char *before, const char *params, const char *after, const char *name)
{
	char line[256];
	int err;

	strcpy(line, before);
	err = boot_cmdline_add(line, sizeof(line), params);
	if (!ok(err == 0 && !strcmp(line, after), "%s", name))
		printf("#   %d, <%s>\n", err, line);
}

static void test_cmdline_add(void)
{
	char line[16];

	adds("", "a=1", "a=1", "parameters are added to nothing");
	adds("root=x", "a=1 b", "root=x a=1 b", "at the end, with a blank between");
	adds("root=x ", "a=1", "root=x a=1", "but not with two");
	adds("root=x -- init args", "a=1", "root=x a=1 -- init args", "before the words for init");
	adds("root=x --", "a=1", "root=x a=1 --", "before a -- at the very end");
	adds("-- x", "a=1", "a=1 -- x", "before a -- at the very beginning");
	adds("a\t--\tx", "b", "a\tb --\tx", "tabs are blanks");
	adds("x -- y -- z", "a", "x a -- y -- z", "the first -- counts");
	adds("a--b --c d--", "x", "a--b --c d-- x", "two dashes inside a word are no --");
	adds("f=\"a -- b\" c", "x", "f=\"a -- b\" c x", "nor are those between quotes");
	adds("f=\"a b\" -- c", "x", "f=\"a b\" x -- c", "after closed quotes they are");
	adds("root=x", "", "root=x", "nothing to add changes nothing");

	strcpy(line, "12345 -- 9");
	is(boot_cmdline_add(line, 16, "abcd"), 0, "a line that fills its buffer is fine");
	ok(!strcmp(line, "12345 abcd -- 9"), "and has its end");
	strcpy(line, "12345 -- 9");
	is(boot_cmdline_add(line, 16, "abcde"), -E2BIG, "a byte more is refused");
	ok(!strcmp(line, "12345 -- 9"), "and nothing is changed");
}

int main(void)
{
	test_bzimage();
	test_bzimage_header();
	test_bzimage_address();
	test_bzimage_refused();
	test_bzimage_fits();
	test_bzimage_truncated();
	test_elf();
	test_elf_pvh();
	test_elf_refused();
	test_elf_truncated();
	test_kinds();
	test_files();
	test_initrd();
	test_initrd_fit();
	test_cmdline_size();
	test_cmdline_add();
	return done();
}
