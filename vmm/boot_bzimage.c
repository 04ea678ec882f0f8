// SPDX-License-Identifier: Apache-2.0
/*
 * boot_bzimage.c - Linux bzImage: the setup header, and the protected-mode part into RAM.
 *
 * Entered at its 64-bit entry, so the real-mode code in front is never run and never loaded. The
 * fields of the header are as untrusted as a guest's: each is bounded before use. Runs on the main
 * thread before any vCPU. Spec: Linux Documentation/arch/x86/boot.rst, protocol 2.12 and up.
 * Calls: boot_int.h.
 */
#include "boot_int.h"
#include "mem.h"
#include <asm/bootparam.h>

#define BZ_HEADER     0x1f1u /* where struct setup_header begins in the file and in boot_params */
#define BZ_JUMP       0x201u /* its second byte: how far the header reaches beyond 0x202 */
#define BZ_ENTRY64    0x200u /* offset of the 64-bit entry in the protected-mode part */
#define BZ_SECTOR     512u
#define BZ_VERSION    0x020cu
#define BZ_LOADER_ANY 0xffu /* type_of_loader: without a number of its own */

bool boot_is_bzimage(const struct boot_loader *l)
{
	return !memcmp(l->head + 0x202, "HdrS", 4) && l->head[0x1fe] == 0x55 &&
	       l->head[0x1ff] == 0xaa;
}

/* The bytes of the header that the image declares; beyond them lies code (hard case C10). */
static unsigned bz_header_len(const struct boot_loader *l)
{
	return MIN(0x202u + l->head[BZ_JUMP] - BZ_HEADER, (unsigned)sizeof(l->boot->setup_header));
}

static uint64_t bz_setup_len(const struct setup_header *hdr)
{
	return ((hdr->setup_sects ? hdr->setup_sects : 4u) + 1u) * BZ_SECTOR;
}

static int bz_check(const struct boot_loader *l, const struct setup_header *hdr)
{
	uint64_t code = (uint64_t)hdr->syssize * 16;
	int err;

	if (hdr->version < BZ_VERSION)
		return boot_kernel_refuse(
			l, "boot protocol older than 2.12; Linux 3.8 or later is needed");
	err = boot_file_check(&l->kernel, 0, BZ_HEADER + bz_header_len(l));
	if (err)
		return err;
	if (!(hdr->xloadflags & XLF_KERNEL_64))
		return boot_kernel_refuse(l,
					  "a 32-bit kernel (no 64-bit entry); use an x86_64 one");
	if (code <= BZ_ENTRY64 || hdr->init_size == 0)
		return boot_kernel_refuse(l, "its header has no size in it; damaged");
	if (hdr->relocatable_kernel && __builtin_popcount(hdr->kernel_alignment) != 1)
		return boot_kernel_refuse(l, "its kernel_alignment is not a power of two; damaged");
	/* The file may be longer: a signature follows the code. */
	return boot_file_check(&l->kernel, bz_setup_len(hdr), code);
}

/*
 * Where the protected-mode part goes. There is no second choice below pref_address when RAM is
 * short: a kernel that finds itself below it moves itself up to it, relocatable or not, and would
 * then run off the end of RAM.
 */
static uint64_t bz_address(const struct setup_header *hdr)
{
	uint64_t addr = hdr->pref_address ? hdr->pref_address : MIB(1);

	return hdr->relocatable_kernel ? ALIGN_UP(addr, hdr->kernel_alignment) : addr;
}

/*
 * The fields that the loader answers for; ramdisk and command line follow when their places are
 * written.
 */
static void bz_fill_header(struct boot_loader *l, struct setup_header *hdr, uint64_t addr)
{
	unsigned len = bz_header_len(l);

	hdr->type_of_loader = BZ_LOADER_ANY;
	hdr->loadflags |= CAN_USE_HEAP;
	hdr->heap_end_ptr =
		0xfe00; /* from 0x200 on, where the real-mode code would have its heap */
	hdr->code32_start = (uint32_t)addr;
	memcpy(l->boot->setup_header, l->head + BZ_HEADER, len);
	memcpy(l->boot->setup_header, hdr, MIN((size_t)len, sizeof(*hdr)));
	l->boot->setup_header_len = len;
}

int boot_load_bzimage(struct boot_loader *l)
{
	struct setup_header hdr = {0};
	uint64_t addr, code, size;
	int err;

	memcpy(&hdr, l->head + BZ_HEADER, MIN((size_t)bz_header_len(l), sizeof(hdr)));
	err = bz_check(l, &hdr);
	if (err)
		return err;
	code = (uint64_t)hdr.syssize * 16;
	addr = bz_address(&hdr);
	size = MAX((uint64_t)hdr.init_size, code);
	err = boot_kernel_check(l, addr, size);
	if (err)
		return err;
	err = boot_file_load(l, &l->kernel, bz_setup_len(&hdr), addr, code);
	if (err)
		return err;

	bz_fill_header(l, &hdr, addr);
	l->boot->entry = ARCH_ENTRY_LINUX64;
	l->boot->entry_addr = addr + BZ_ENTRY64;
	l->boot->kernel_start = addr;
	l->boot->kernel_end = addr + size;
	/*
	 * The header names the last byte. Without ext_ramdisk_* nothing above 4 GiB could be told
	 * (hard case C8).
	 */
	l->initrd_end = (uint64_t)hdr.initrd_addr_max + 1;
	l->cmdline_max = hdr.cmdline_size;
	return 0;
}
