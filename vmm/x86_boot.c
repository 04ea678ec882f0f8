// SPDX-License-Identifier: Apache-2.0
/*
 * x86_boot.c - what a kernel finds in RAM and in the registers when it starts.
 *
 * Two protocols: Linux's 64-bit entry (long mode, zero page) and PVH (32-bit, start info). Both get
 * the same memory map, command line, initrd, ACPI and MP tables, and one GDT whose descriptors are
 * made from the very segments that are loaded. Every address is in the map in arch.h. Runs on main
 * before any vCPU. Spec: Linux Documentation/arch/x86/boot.rst, 64-bit protocol; Xen
 * public/arch-x86/hvm/start_info.h (PVH); Intel SDM 3, 3.4.5 (descriptors), 4.5 (paging). Calls:
 * mem.h, acpi_build, mptable_build.
 */
#include "arch.h"
#include "log.h"
#include "vm.h"
#include "x86.h"
#include <asm/bootparam.h>
#include <assert.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>

#define ADDR_GDT         0x500
#define ADDR_START_INFO  0x6000 /* PVH: start info, */
#define ADDR_MODULE      0x6040 /* its one module, */
#define ADDR_MEMMAP      0x6080 /* its memory map */
#define ADDR_BOOT_PARAMS 0x7000
#define ADDR_STACK       0x8ff0
#define ADDR_PAGE_TABLES 0x9000 /* PML4, PDPT, four page directories */
#define ADDR_CMDLINE     0x20000
#define ADDR_ACPI        0xe0000
#define ADDR_MPTABLE \
	0xf0000 /* the last 64 KiB of the first MiB are searched for it by every kernel */
#define TABLES_MAX  KIB(64)
#define LOW_RAM_END 0x9fc00 /* where a PC's base memory ends, less the KiB a BIOS keeps */
#define FIRST_MIB   MIB(1)

#define IDENTITY_GIB 4
#define PAGE_ENTRIES 512
#define PTE_TABLE    0x3  /* present, writable */
#define PTE_HUGE     0x83 /* and 2 MiB */

#define SEL_CODE 0x10 /* the 64-bit protocol's __BOOT_CS */
#define SEL_DATA 0x18 /* and __BOOT_DS */
#define SEL_TSS  0x20 /* two entries in long mode */
#define GDT_LEN  6

#define CR0_PE        (1u << 0)
#define CR0_ET        (1u << 4)
#define CR0_NE        (1u << 5)
#define CR0_PG        (1u << 31)
#define CR4_PAE       (1u << 5)
#define EFER_LME      (1u << 8)
#define EFER_LMA      (1u << 10)
#define RFLAGS_ALWAYS 2 /* bit 1 reads as one; interrupts are off */

#define HDR_OFFSET       0x1f1
#define HDR_BOOT_FLAG    0xaa55
#define HDR_MAGIC        0x53726448 /* "HdrS" */
#define HDR_VERSION      0x020f
#define HDR_ALIGNMENT    0x01000000
#define LOADER_UNDEFINED 0xff

enum { E820_RAM = 1, E820_RESERVED = 2 };
#define E820_MAX 8

/* ---- PVH's structures: there is no kernel header of them for user space; all little-endian, no
 * padding ---- */

#define PVH_MAGIC   0x336ec578
#define PVH_VERSION 1

struct pvh_start_info {
	uint32_t magic, version, flags, nr_modules;
	uint64_t modlist_paddr, cmdline_paddr, rsdp_paddr, memmap_paddr;
	uint32_t memmap_entries, reserved;
};
struct pvh_module {
	uint64_t paddr, size, cmdline_paddr, reserved;
};
struct pvh_memmap_entry {
	uint64_t addr, size;
	uint32_t type, reserved;
};
static_assert(sizeof(struct pvh_start_info) == 56 && sizeof(struct pvh_module) == 32 &&
		      sizeof(struct pvh_memmap_entry) == 24,
	      "as the ABI lays them out");
static_assert(ADDR_START_INFO + sizeof(struct pvh_start_info) <= ADDR_MODULE &&
		      ADDR_MODULE + sizeof(struct pvh_module) <= ADDR_MEMMAP &&
		      ADDR_MEMMAP + E820_MAX * sizeof(struct pvh_memmap_entry) <= ADDR_BOOT_PARAMS,
	      "they do not overlap");

/* ---- memory map ---- */

struct e820 {
	struct boot_e820_entry entry[E820_MAX];
	uint8_t n;
};

static void e820_add(struct e820 *map, uint64_t addr, uint64_t size, uint32_t type)
{
	assert(map->n < E820_MAX);
	if (size)
		map->entry[map->n++] =
			(struct boot_e820_entry){.addr = addr, .size = size, .type = type};
}

static struct e820 e820_build(const struct vm *vm)
{
	const struct mem *mem = vm->mem;
	struct e820 map = {.n = 0};

	e820_add(&map, 0, LOW_RAM_END, E820_RAM);
	e820_add(&map, LOW_RAM_END, FIRST_MIB - LOW_RAM_END, E820_RESERVED);
	e820_add(&map, FIRST_MIB, mem->region[0].len - FIRST_MIB, E820_RAM);
	/* A kernel uses the ECAM that the MCFG names only if the memory map reserves it. */
	if (vm->has_pci)
		e820_add(&map, ARCH_ECAM_BASE, ARCH_ECAM_SIZE, E820_RESERVED);
	e820_add(&map, X86_KVM_PAGES, X86_KVM_PAGES_SIZE, E820_RESERVED);
	if (mem->nregions > 1)
		e820_add(&map, mem->region[1].base, mem->region[1].len, E820_RAM);
	return map;
}

/* ---- segments ---- */

static const struct kvm_segment code64 = {.limit = UINT32_MAX,
					  .selector = SEL_CODE,
					  .type = 0xb,
					  .present = 1,
					  .s = 1,
					  .l = 1,
					  .g = 1};
static const struct kvm_segment code32 = {.limit = UINT32_MAX,
					  .selector = SEL_CODE,
					  .type = 0xb,
					  .present = 1,
					  .s = 1,
					  .db = 1,
					  .g = 1};
static const struct kvm_segment data = {.limit = UINT32_MAX,
					.selector = SEL_DATA,
					.type = 0x3,
					.present = 1,
					.s = 1,
					.db = 1,
					.g = 1};
static const struct kvm_segment tss = {
	.limit = 0x67, .selector = SEL_TSS, .type = 0xb, .present = 1};

static const struct kvm_segment *code_segment(const struct arch_boot *boot)
{
	return boot->entry == ARCH_ENTRY_LINUX64 ? &code64 : &code32;
}

/* All bases are 0. */
static uint64_t descriptor(const struct kvm_segment *s)
{
	uint64_t limit = s->g ? s->limit >> 12 : s->limit;
	uint64_t access = s->type | s->s << 4 | s->dpl << 5 | s->present << 7;
	uint64_t flags = s->avl | s->l << 1 | s->db << 2 | s->g << 3;

	return (limit & 0xffff) | access << 40 | (limit >> 16 & 0xf) << 48 | flags << 52;
}

/* ---- RAM ---- */

static int write_gdt(const struct vm *vm, const struct arch_boot *boot)
{
	const uint64_t gdt[GDT_LEN] = {
		[SEL_CODE / 8] = descriptor(code_segment(boot)),
		[SEL_DATA / 8] = descriptor(&data),
		[SEL_TSS / 8] = descriptor(&tss),
	};

	return mem_write(vm->mem, GPA(ADDR_GDT), gdt, sizeof(gdt));
}

static int write_page_tables(const struct vm *vm)
{
	uint64_t pml4[PAGE_ENTRIES] = {(ADDR_PAGE_TABLES + KIB(4)) | PTE_TABLE};
	uint64_t pdpt[PAGE_ENTRIES] = {0};
	uint64_t pd[PAGE_ENTRIES];
	uint64_t addr = ADDR_PAGE_TABLES + KIB(8);
	int r;

	for (uint64_t g = 0; g < IDENTITY_GIB; g++, addr += KIB(4)) {
		for (uint64_t i = 0; i < PAGE_ENTRIES; i++)
			pd[i] = (GIB(g) + MIB(2) * i) | PTE_HUGE;
		pdpt[g] = addr | PTE_TABLE;
		r = mem_write(vm->mem, GPA(addr), pd, sizeof(pd));
		if (r)
			return r;
	}
	r = mem_write(vm->mem, GPA(ADDR_PAGE_TABLES), pml4, sizeof(pml4));
	if (r)
		return r;
	return mem_write(vm->mem, GPA(ADDR_PAGE_TABLES + KIB(4)), pdpt, sizeof(pdpt));
}

/* Only what the image declares of its header; everything else is zero, the sentinel too (hard case
 * C10). */
static void fill_header(struct boot_params *bp, const struct arch_boot *boot)
{
	assert(boot->setup_header_len <= sizeof(boot->setup_header));
	memcpy((uint8_t *)bp + HDR_OFFSET, boot->setup_header, boot->setup_header_len);
	if (!boot->setup_header_len) {
		bp->hdr.boot_flag = HDR_BOOT_FLAG;
		bp->hdr.header = HDR_MAGIC;
		bp->hdr.version = HDR_VERSION;
		bp->hdr.kernel_alignment = HDR_ALIGNMENT;
		bp->hdr.loadflags = LOADED_HIGH;
	}
	bp->hdr.type_of_loader = LOADER_UNDEFINED;
	bp->hdr.cmd_line_ptr = ADDR_CMDLINE;
	/* Zero above 32 bits unless the image allows more, which boot.h sees to (hard case C8). */
	bp->hdr.ramdisk_image = (uint32_t)boot->initrd_addr;
	bp->hdr.ramdisk_size = (uint32_t)boot->initrd_size;
	bp->ext_ramdisk_image = (uint32_t)(boot->initrd_addr >> 32);
	bp->ext_ramdisk_size = (uint32_t)(boot->initrd_size >> 32);
}

static int write_boot_params(const struct vm *vm, const struct arch_boot *boot,
			     const struct e820 *map)
{
	struct boot_params bp = {.acpi_rsdp_addr = ADDR_ACPI, .e820_entries = map->n};

	fill_header(&bp, boot);
	memcpy(bp.e820_table, map->entry, map->n * sizeof(map->entry[0]));
	return mem_write(vm->mem, GPA(ADDR_BOOT_PARAMS), &bp, sizeof(bp));
}

static int write_start_info(const struct vm *vm, const struct arch_boot *boot,
			    const struct e820 *map)
{
	const struct pvh_start_info info = {
		.magic = PVH_MAGIC,
		.version = PVH_VERSION,
		.nr_modules = boot->initrd_size ? 1 : 0,
		.modlist_paddr = boot->initrd_size ? ADDR_MODULE : 0,
		.cmdline_paddr = ADDR_CMDLINE,
		.rsdp_paddr = ADDR_ACPI,
		.memmap_paddr = ADDR_MEMMAP,
		.memmap_entries = map->n,
	};
	const struct pvh_module module = {.paddr = boot->initrd_addr, .size = boot->initrd_size};
	struct pvh_memmap_entry e[E820_MAX];
	int r;

	/* The types have e820's numbers. */
	for (unsigned i = 0; i < map->n; i++)
		e[i] = (struct pvh_memmap_entry){.addr = map->entry[i].addr,
						 .size = map->entry[i].size,
						 .type = map->entry[i].type};
	r = mem_write(vm->mem, GPA(ADDR_START_INFO), &info, sizeof(info));
	if (r)
		return r;
	r = mem_write(vm->mem, GPA(ADDR_MODULE), &module, sizeof(module));
	if (r)
		return r;
	return mem_write(vm->mem, GPA(ADDR_MEMMAP), e, map->n * sizeof(e[0]));
}

static int write_table(const struct vm *vm, const char *name, uint64_t addr, const uint8_t *table,
		       int len)
{
	if (len >= 0)
		return mem_write(vm->mem, GPA(addr), table, (size_t)len);
	log_err("vm: %s tables do not fit %llu KiB: configure fewer devices", name,
		(unsigned long long)(TABLES_MAX >> 10));
	return len;
}

static int write_firmware_tables(const struct vm *vm)
{
	auto_free uint8_t *table = calloc(1, TABLES_MAX);
	int r;

	if (!table) {
		log_err("vm: firmware tables: out of memory");
		return -ENOMEM;
	}
	r = write_table(vm, "ACPI", ADDR_ACPI, table, acpi_build(vm, ADDR_ACPI, table, TABLES_MAX));
	if (r)
		return r;
	return write_table(vm, "MP", ADDR_MPTABLE, table,
			   mptable_build(vm, ADDR_MPTABLE, table, TABLES_MAX));
}

int arch_boot_write(struct vm *vm, const struct arch_boot *boot)
{
	struct e820 map;
	int r;

	/* All addresses above lie in the first MiB, so from here on no write to RAM can fail. */
	if (vm->mem->region[0].len < FIRST_MIB) {
		log_err("memory: %llu KiB of RAM: a PC needs 1 MiB and room for its kernel",
			(unsigned long long)(vm->mem->region[0].len >> 10));
		return -ENOMEM;
	}
	map = e820_build(vm);
	r = mem_write(vm->mem, GPA(ADDR_CMDLINE), boot->cmdline,
		      strnlen(boot->cmdline, sizeof(boot->cmdline) - 1) + 1);
	if (!r)
		r = write_gdt(vm, boot);
	if (!r && boot->entry == ARCH_ENTRY_LINUX64)
		r = write_page_tables(vm);
	if (!r && boot->entry == ARCH_ENTRY_LINUX64)
		r = write_boot_params(vm, boot, &map);
	if (!r && boot->entry == ARCH_ENTRY_PVH32)
		r = write_start_info(vm, boot, &map);
	if (!r)
		r = write_firmware_tables(vm);
	return r;
}

/* ---- registers ---- */

static void sregs_fill(struct kvm_sregs *s, const struct arch_boot *boot)
{
	s->cs = *code_segment(boot);
	s->ds = s->es = s->fs = s->gs = s->ss = data;
	s->tr = tss;
	s->gdt = (struct kvm_dtable){.base = ADDR_GDT, .limit = GDT_LEN * 8 - 1};
	s->idt = (struct kvm_dtable){.base = 0, .limit = 0};
	s->cr0 = CR0_PE | CR0_ET | CR0_NE;
	s->cr4 = 0;
	s->efer = 0;
	if (boot->entry == ARCH_ENTRY_PVH32) {
		s->cr0 = CR0_PE | CR0_ET; /* PVH: nothing but protected mode */
		return;
	}
	s->cr0 |= CR0_PG;
	s->cr3 = ADDR_PAGE_TABLES;
	s->cr4 = CR4_PAE;
	s->efer = EFER_LME | EFER_LMA;
}

int x86_entry_set(int vcpu_fd, const struct arch_boot *boot)
{
	struct kvm_regs regs = {
		.rip = boot->entry_addr, .rsp = ADDR_STACK, .rflags = RFLAGS_ALWAYS};
	struct kvm_sregs sregs;

	if (boot->entry == ARCH_ENTRY_LINUX64)
		regs.rsi = ADDR_BOOT_PARAMS;
	else
		regs.rbx = ADDR_START_INFO;
	if (ioctl(vcpu_fd, KVM_GET_SREGS, &sregs) < 0)
		goto fail;
	sregs_fill(&sregs, boot);
	if (ioctl(vcpu_fd, KVM_SET_SREGS, &sregs) < 0 || ioctl(vcpu_fd, KVM_SET_REGS, &regs) < 0)
		goto fail;
	return 0;
fail:
	log_err("vcpu0: entry registers: %m");
	return -errno;
}
