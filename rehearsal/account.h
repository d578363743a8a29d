/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Simulated device memory: address space of the process with an account per device. Copies of up to a
 * megabyte are carried out, so that the host reads back what it wrote; everything else reads as 0 and uses no
 * memory. Any thread may call these functions.
 */

/* Copies, fills and collectives of up to this many bytes are carried out. */
enum { P4D_ACCOUNT_SMALL = 1 << 20 };

/* What a device of the driver hands out at once: larger blocks are rounded up to it, smaller ones share one.
 */
enum { P4D_ACCOUNT_GRANULE = 2 << 20 };

/* The calling thread's device. Setting one that does not exist returns false and changes nothing. */
int p4d_account_device(void);
bool p4d_account_set_device(int device);

/* Takes BYTES on DEVICE; NULL if they do not fit in addition to what it holds. */
void *p4d_account_take(size_t bytes, int device);

/* Gives back what p4d_account_take returned. False: not such an address. */
bool p4d_account_give(void *address);

/* Bytes without an address, as cuMemCreate takes them. False: they do not fit. */
bool p4d_account_charge(uint64_t bytes, int device);
void p4d_account_discharge(uint64_t bytes, int device);

/* An address for BYTES that belong to nobody yet (cuMemAddressReserve). NULL: no address space is left. */
void *p4d_account_address(size_t bytes);

/* Whether ADDRESS is in the range of all devices, and the device on which it was taken; -1: none (reserved
 * addresses). */
bool p4d_account_is_device(const void *address);
int p4d_account_device_of(const void *address);

/* The start and size of the block that was taken at ADDRESS or before; false: there is none. */
bool p4d_account_block(const void *address, void **start, size_t *bytes);

/* What DEVICE holds now, and the most that it held; the context is counted once the device was used. */
uint64_t p4d_account_used(int device);
uint64_t p4d_account_peak(int device);

/* The largest request that did not fit, and what the device held then; 0: there was none. */
uint64_t p4d_account_refused(int device, uint64_t *held);

/* Like memmove and memset, for at most P4D_ACCOUNT_SMALL bytes if one side is device memory. */
void p4d_account_copy(void *to, const void *from, size_t bytes);
void p4d_account_fill(void *to, int value, size_t bytes);
