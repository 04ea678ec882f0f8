// SPDX-License-Identifier: Apache-2.0
/*
 * t_acpi.c - the ACPI tables: by their own lengths, sums and pointers, and by iasl, which must
 * disassemble each without a word of complaint and compile the DSDT's disassembly again.
 */
#include "tap.h"
#include "../vmm/arch.h"
#include "../vmm/vm.h"

#define ADDR 0xe0000ull
#define CAP  0x10000u

struct built {
	struct vm *vm;
	struct mem mem;
	uint8_t *out;
	int len;
};

static void add(struct vm *vm, const char *hid, uint64_t base, uint64_t len, int gsi)
{
	need(vm->nplatform < VM_PLATFORM_MAX);
	vm->platform[vm->nplatform++] = (struct vm_platform){
		.hid = hid, .base = base, .len = len, .is_pio = base < 0x10000, .gsi = gsi};
}

/*
 * The virtio nodes are registered from high to low, the ports last, so that the order in the table
 * is not chance.
 */
static void setup(struct built *t, unsigned ncpus, bool pci, unsigned nodes)
{
	*t = (struct built){.vm = calloc(1, sizeof(struct vm)), .out = calloc(1, CAP)};
	need(t->vm && t->out);
	t->mem = (struct mem){.region = {{0, MIB(512), NULL}}, .nregions = 1, .total = MIB(512)};
	t->vm->mem = &t->mem;
	t->vm->ncpus = ncpus;
	t->vm->has_pci = pci;
	for (unsigned i = 0; i < ARRAY_LEN(t->vm->pci_gsi); i++)
		t->vm->pci_gsi[i] = pci && i >= 1 && i <= 4 ? (int16_t)(4 + i) : -1;
	for (unsigned i = nodes; i-- > 0;)
		add(t->vm, "LNRO0005", ARCH_MMIO_BASE + i * 0x1000, 0x1000, (int)(5 + i % 19));
	if (nodes)
		t->vm->platform[0].level = true;
	add(t->vm, "PNP0501", 0x3f8, 8, 4);
	add(t->vm, "QEMU0001", 0x505, 1, -1);
}

static void build(struct built *t)
{
	t->len = acpi_build(t->vm, ADDR, t->out, CAP);
	need(t->len > 0);
}

static void fini(struct built *t)
{
	free(t->out);
	free(t->vm);
}

static uint64_t get(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return le64toh(v);
}

static unsigned sum(const uint8_t *p, size_t n)
{
	uint8_t s = 0;

	while (n--)
		s = (uint8_t)(s + *p++);
	return s;
}

/*
 * The table at a guest address, or NULL if it is not wholly inside what was built or its sum is
 * wrong.
 */
static const uint8_t *table_at(const struct built *t, uint64_t addr)
{
	uint64_t off = addr - ADDR, len;

	if (addr < ADDR || off + 36 > (uint64_t)t->len || addr % 16)
		return NULL;
	len = get(t->out + off + 4, 4);
	if (len < 36 || off + len > (uint64_t)t->len || sum(t->out + off, len))
		return NULL;
	return t->out + off;
}

/* By way of RSDP and XSDT, and of FADT for the DSDT. */
static const uint8_t *find(const struct built *t, const char *signature)
{
	const uint8_t *xsdt = table_at(t, get(t->out + 24, 8)), *dsdt = NULL;

	need(xsdt);
	for (unsigned at = 36; at < get(xsdt + 4, 4); at += 8) {
		const uint8_t *p = table_at(t, get(xsdt + at, 8));

		need(p);
		if (!memcmp(p, signature, 4))
			return p;
		if (!memcmp(p, "FACP", 4))
			dsdt = table_at(t, get(p + 140, 8));
	}
	if (!memcmp(signature, "XSDT", 4))
		return xsdt;
	return dsdt && !memcmp(dsdt, signature, 4) ? dsdt : NULL;
}

static void test_rsdp(void)
{
	struct built t;

	setup(&t, 2, true, 1);
	build(&t);
	ok(!memcmp(t.out, "RSD PTR ", 8) && t.out[15] == 2 && get(t.out + 20, 4) == 36,
	   "the RSDP comes first, revision 2, 36 bytes");
	ok(sum(t.out, 20) == 0 && sum(t.out, 36) == 0, "both checksums of the RSDP are right");
	ok(get(t.out + 16, 4) == 0, "there is no RSDT");
	ok(find(&t, "XSDT") && find(&t, "FACP") && find(&t, "APIC") && find(&t, "MCFG") &&
		   find(&t, "DSDT"),
	   "every table is reached, aligned, inside the area and sums up to 0");
	fini(&t);
}

static void test_fadt(void)
{
	struct built t;
	const uint8_t *p;

	setup(&t, 1, true, 0);
	build(&t);
	p = find(&t, "FACP");
	need(p);
	ok(get(p + 4, 4) == 276 && p[8] == 6, "the FADT is of revision 6 and 276 bytes long");
	is(get(p + 112, 4), 1 << 20 | 1 << 10 | 1 << 5 | 1 << 4 | 1,
	   "it says hardware-reduced, reset register, no fixed buttons");
	ok(p[116] == 1 && p[117] == 8 && p[118] == 0 && p[119] == 1 &&
		   get(p + 120, 8) == ARCH_PORT_RESET && p[128] == ARCH_RESET_VALUE,
	   "the reset register is an 8-bit port with its value");
	ok(p[244] == 1 && p[245] == 8 && get(p + 248, 8) == ARCH_PORT_SLEEP_CONTROL,
	   "the sleep control register is an 8-bit port");
	ok(p[256] == 1 && p[257] == 8 && get(p + 260, 8) == ARCH_PORT_SLEEP_STATUS,
	   "the sleep status register is an 8-bit port");
	is(get(p + 109, 2), 1 << 5 | 1 << 2, "without i8042 and RTC it says so, and no VGA");
	fini(&t);

	setup(&t, 1, true, 0);
	add(t.vm, "PNP0303", 0x60, 1, 1);
	add(t.vm, "PNP0B00", 0x70, 2, 8);
	build(&t);
	p = find(&t, "FACP");
	need(p);
	is(get(p + 109, 2), 1 << 2 | 1 << 1, "with i8042 and RTC it says that they are there");
	fini(&t);
}

static void test_madt(unsigned ncpus)
{
	unsigned cpus = 0, ioapics = 0, other = 0;
	struct built t;
	const uint8_t *p, *e;
	bool good = true;

	setup(&t, ncpus, false, 0);
	build(&t);
	p = find(&t, "APIC");
	need(p);
	for (e = p + 44; e < p + get(p + 4, 4); e += e[1]) {
		need(e[1] >= 2);
		if (e[0] == 0 && e[1] == 8) {
			good &= e[2] == cpus && e[3] == cpus && get(e + 4, 4) == 1;
			cpus++;
		} else if (e[0] == 1 && e[1] == 12) {
			good &= get(e + 4, 4) == ARCH_IOAPIC_BASE && get(e + 8, 4) == 0;
			ioapics++;
		} else {
			other++;
		}
	}
	ok(e == p + get(p + 4, 4), "the entries of a MADT for %u CPUs fill it exactly", ncpus);
	ok(good && cpus == ncpus && ioapics == 1 && other == 0,
	   "it has %u enabled CPUs with their own ids, one IOAPIC from GSI 0, no override", ncpus);
	ok(!find(&t, "MCFG"), "there is no MCFG without PCI");
	fini(&t);
}

static void test_mcfg(void)
{
	struct built t;
	const uint8_t *p;

	setup(&t, 1, true, 0);
	build(&t);
	p = find(&t, "MCFG");
	need(p);
	ok(get(p + 4, 4) == 60 && get(p + 44, 8) == ARCH_ECAM_BASE && get(p + 52, 2) == 0 &&
		   p[54] == 0 && p[55] == 0,
	   "MCFG names the ECAM of bus 0 of segment 0 and no other");
	fini(&t);
}

/* Without a disassembler: the lengths of the two objects at the top must add up to the table. */
static void test_dsdt_top(unsigned nodes)
{
	struct built t;
	const uint8_t *p;
	size_t at, len;

	setup(&t, 4, true, nodes);
	build(&t);
	p = find(&t, "DSDT");
	need(p);
	len = get(p + 4, 4);
	ok(p[36] == 0x10 && p[37] >> 6 == 2 && !memcmp(p + 40, "\\_SB_", 5),
	   "the DSDT with %u nodes opens \\_SB", nodes);
	at = 37 + ((p[37] & 15u) | (size_t)p[38] << 4 | (size_t)p[39] << 12);
	ok(at + 5 < len && p[at] == 0x08 && !memcmp(p + at + 1, "_S5_", 4) && p[at + 5] == 0x12,
	   "\\_S5 follows where \\_SB ends");
	at += 6;
	at += (p[at] & 15u) | (size_t)p[at + 1] << 4 | (size_t)p[at + 2] << 12;
	is(at, len, "and ends where the table ends");
	fini(&t);
}

static void test_bounds(void)
{
	struct built t;
	uint8_t *small = malloc(CAP);
	bool refused = true, untouched = true;

	need(small);
	setup(&t, 2, true, 3);
	build(&t);
	for (size_t cap = 0; cap < (size_t)t.len; cap++) {
		memset(small, 0xa5, CAP);
		refused &= acpi_build(t.vm, ADDR, small, cap) == -ENOSPC;
		for (size_t i = cap; i < (size_t)t.len + 64; i++)
			untouched &= small[i] == 0xa5;
	}
	ok(refused, "any smaller area is refused with -ENOSPC");
	ok(untouched, "and nothing is written beyond it");
	is(acpi_build(t.vm, ADDR, small, (size_t)t.len), t.len, "an area of the very size will do");
	ok(!memcmp(small, t.out, (size_t)t.len), "two runs give the same bytes");
	free(small);
	fini(&t);
}

/* ---- iasl ---- */

static char *slurp(FILE *f)
{
	size_t n = 0, cap = 1 << 20;
	char *text = malloc(cap);

	need(f && text);
	n = fread(text, 1, cap - 1, f);
	text[n] = 0;
	return text;
}

static char *command(const char *dir, const char *what)
{
	char line[512];
	char *text;
	FILE *f;

	snprintf(line, sizeof(line), "cd %s && { %s; } 2>&1", dir, what);
	f = popen(line, "r");
	text = slurp(f);
	pclose(f);
	return text;
}

static char *file_text(const char *dir, const char *name)
{
	char path[256];
	char *text;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r");
	text = slurp(f);
	fclose(f);
	return text;
}

static void save(const char *dir, const char *name, const uint8_t *p, size_t n)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.dat", dir, name);
	f = fopen(path, "w");
	need(f && fwrite(p, 1, n, f) == n);
	fclose(f);
}

static bool complains(const char *text)
{
	static const char *const words[] = {"Warning", "Error",     "Invalid",  "****",
					    "Unknown", "Could not", "mismatch", "Unexpected"};

	for (unsigned i = 0; i < ARRAY_LEN(words); i++) {
		if (strstr(text, words[i])) {
			printf("# %s in: %s\n", words[i], text);
			return true;
		}
	}
	return false;
}

static unsigned count(const char *text, const char *word)
{
	unsigned n = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

/* The virtio nodes' windows in the order of the text, each higher than the one before. */
static bool ascending(const char *dsl, unsigned nodes)
{
	const char *p = dsl;
	unsigned n = 0;

	for (; (p = strstr(p, "\"LNRO0005\"")); n++) {
		char want[64], uid[32];
		const char *next = strstr(p + 1, "\"LNRO0005\""), *at, *id;

		snprintf(want, sizeof(want), "0x%08llX,         // Address Base",
			 ARCH_MMIO_BASE + n * 0x1000ull);
		if (n < 2)
			snprintf(uid, sizeof(uid), "_UID, %s)", n ? "One" : "Zero");
		else
			snprintf(uid, sizeof(uid), "_UID, 0x%02X)", n);
		at = strstr(p, want);
		id = strstr(p, uid);
		if (!at || !id || (next && (at > next || id > next)))
			return false;
		p++;
	}
	return n == nodes;
}

static void check_dsl(const struct built *t, const char *dsl, bool pci, unsigned nodes)
{
	char text[64];

	is(count(dsl, "\"ACPI0007\""), t->vm->ncpus, "its DSDT has a device for each CPU");
	ok(ascending(dsl, nodes), "its virtio-mmio nodes go from low to high, numbered from 0");
	ok(count(dsl, "EisaId (\"PNP0501\")") == 1 && count(dsl, "\"QEMU0001\"") == 1,
	   "it has COM1 and pvpanic");
	ok(count(dsl, "Consumer, Level, ActiveHigh, Exclusive") == (nodes > 0) &&
		   count(dsl, "Consumer, Edge, ActiveHigh, Exclusive") == nodes + 1 - (nodes > 0),
	   "each device with an interrupt has it, edge or level as it was registered");
	ok(strstr(dsl, "Name (_S5, Package (0x04)"), "it has \\_S5");
	is(count(dsl, "EisaId (\"PNP0A08\")"), pci, "it has a PCI host bridge if there is PCI");
	if (!pci)
		return;
	is(count(dsl, "EisaId (\"PNP0C02\")"), 1, "a motherboard resource holds the ECAM");
	snprintf(text, sizeof(text), "0x%016llX, // Range Minimum",
		 (unsigned long long)arch_pci64_base(t->vm));
	ok(strstr(dsl, text), "the 64-bit window begins where the machine says");
	ok(strstr(dsl, "0xC0000000,         // Range Minimum") &&
		   strstr(dsl, "0xDFFFFFFF,         // Range Maximum"),
	   "the 32-bit window ends before the ECAM");
	ok(strstr(dsl, "0x0001FFFF") && strstr(dsl, "0x0004FFFF") && !strstr(dsl, "0x0005FFFF"),
	   "_PRT has the slots with an interrupt and no other");
}

static void check_iasl(const struct built *t, const char *dir, bool pci, unsigned nodes)
{
	static const char *const names[] = {"XSDT", "FACP", "APIC", "MCFG", "DSDT"};
	char *text;

	free(command(dir, "rm -f *"));
	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		const uint8_t *p = find(t, names[i]);

		if (p)
			save(dir, names[i], p, get(p + 4, 4));
	}
	/*
	 * Data tables are "decoded", the DSDT is "disassembled"; iasl does not know the RSDP by
	 * itself.
	 */
	text = command(dir, "iasl -d *.dat && cat *.dsl");
	ok(!complains(text) && count(text, "] decoded") == (pci ? 4 : 3) &&
		   count(text, "Disassembly completed") == 1,
	   "iasl disassembles every table of %u CPUs, %s, %u nodes", t->vm->ncpus,
	   pci ? "PCI" : "no PCI", nodes);
	free(text);
	text = command(dir, "iasl -tc DSDT.dsl");
	if (!ok(strstr(text, " 0 Errors, 0 Warnings"), "and compiles the DSDT again"))
		printf("# %s\n", text);
	free(text);
	text = file_text(dir, "DSDT.dsl");
	check_dsl(t, text, pci, nodes);
	free(text);
}

static void test_iasl(void)
{
	static const unsigned cpus[] = {1, 2, 4, 32}, nodes[] = {0, 1, 20};
	char dir[] = "/tmp/t_acpi.XXXXXX";

	if (system("iasl -v >/dev/null 2>&1")) {
		skip("iasl is not installed", "iasl reads the tables");
		return;
	}
	need(mkdtemp(dir));
	for (unsigned i = 0; i < ARRAY_LEN(cpus) * 2 * ARRAY_LEN(nodes); i++) {
		bool pci = i & 1;
		unsigned n = nodes[i / 2 % ARRAY_LEN(nodes)];
		struct built t;

		setup(&t, cpus[i / 2 / ARRAY_LEN(nodes)], pci, n);
		build(&t);
		check_iasl(&t, dir, pci, n);
		fini(&t);
	}
	free(command(dir, "rm -f *"));
	rmdir(dir);
}

static void test_extremes(void)
{
	struct built t;

	setup(&t, 1, false, 0);
	t.vm->nplatform = 0;
	build(&t);
	ok(find(&t, "DSDT"), "a machine without any platform device has its tables");
	fini(&t);

	setup(&t, 254, true, 62);
	for (unsigned i = 0; i < 32; i++)
		t.vm->pci_gsi[i] = (int16_t)(5 + i % 19);
	build(&t);
	ok(find(&t, "DSDT") && t.len < 0x10000, "254 CPUs, 64 devices and 32 slots fit 64 KiB");
	fini(&t);
}

int main(void)
{
	test_rsdp();
	test_fadt();
	test_madt(1);
	test_madt(32);
	test_mcfg();
	test_dsdt_top(0);
	test_dsdt_top(20);
	test_bounds();
	test_extremes();
	test_iasl();
	return done();
}
