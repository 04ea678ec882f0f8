// SPDX-License-Identifier: Apache-2.0
/*
 * aml.h - writes AML: named objects, devices, packages and resource templates (x86's ACPI tables).
 *
 * What is opened is closed by aml_close() or aml_crs_close() with what open returned, innermost
 * first. Names (seg) are four characters. Running out of room is the buffer's business (bytes.h).
 */
#ifndef VMM_AML_H
#define VMM_AML_H

#include "bytes.h"

void aml_int(struct bytes *, uint32_t v);
/* Name(seg, ...): the object follows. */
void aml_name(struct bytes *, const char *seg);
void aml_name_int(struct bytes *, const char *seg, uint32_t v);
/* Name(seg, id): "PNP0501" (seven characters) packed as an EISA id, "ACPI0007" (eight) as a string. */
void aml_name_id(struct bytes *, const char *seg, const char *id);

/* path is an AML name as it is encoded: "\\_SB_". */
size_t aml_open_scope(struct bytes *, const char *path) must_check;
size_t aml_open_device(struct bytes *, const char *seg) must_check;
/* Of n objects, which follow. */
size_t aml_open_package(struct bytes *, unsigned n) must_check;
void aml_close(struct bytes *, size_t at);

/* Name(_CRS, ResourceTemplate): resources follow. */
struct aml_crs {
	size_t package, size; /* where the two lengths are */
};
struct aml_crs aml_crs_open(struct bytes *) must_check;
void aml_crs_close(struct bytes *, const struct aml_crs *);

/* What a device decodes. Ports: len 1 to 255; memory: below 4 GiB. Interrupts are active high and
 * exclusive. */
void aml_res_io(struct bytes *, uint64_t base, uint64_t len);
void aml_res_memory32(struct bytes *, uint64_t base, uint64_t len);
void aml_res_interrupt(struct bytes *, uint32_t gsi, bool level);
/* What a host bridge passes on: bus numbers, and memory windows that are fixed and not
 * prefetchable. */
void aml_res_bus(struct bytes *, uint16_t first, uint16_t last);
void aml_res_window32(struct bytes *, uint32_t base, uint32_t len);
void aml_res_window64(struct bytes *, uint64_t base, uint64_t len);

#endif
