/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Simulated device memory: address space of the process, with an account per device. Copies of up to a
 * megabyte are really made, so that a program reads back what it wrote. Other memory reads as 0 and uses no
 * host memory. Any thread may call these functions.
 */

/* Copies, fills and collectives of up to this many bytes are really made. */
enum { P4D_ACCOUNT_SMALL = 1 << 20 };

/*
 * Granule of the driver's device memory. Blocks of at least half a granule are rounded up to granules;
 * smaller blocks share granules.
 */
enum { P4D_ACCOUNT_GRANULE = 2 << 20 };

/* The calling thread's device. Setting a device that does not exist returns false and changes nothing. */
int p4d_account_device(void);
bool p4d_account_set_device(int device);

/* Allocates BYTES on DEVICE. NULL: they do not fit next to the memory that the device holds already. */
void *p4d_account_take(size_t bytes, int device);

/* Frees a block of p4d_account_take. False: there is no such block. */
bool p4d_account_give(void *address);

/* Counts bytes that have no address, as cuMemCreate allocates them. False: they do not fit. */
bool p4d_account_charge(uint64_t bytes, int device);
void p4d_account_discharge(uint64_t bytes, int device);

/* Reserves addresses for BYTES without memory (cuMemAddressReserve). NULL: no address space is left. */
void *p4d_account_address(size_t bytes);

/*
 * Whether ADDRESS is in the address range of device memory. The next function: the device on which it was
 * allocated; -1: none (reserved addresses).
 */
bool p4d_account_is_device(const void *address);
int p4d_account_device_of(const void *address);

/* Finds the last block that begins at ADDRESS or before it. False: there is none. */
bool p4d_account_block(const void *address, void **start, size_t *bytes);

/* The memory that DEVICE holds now, and its peak. They include the context as soon as the device was used. */
uint64_t p4d_account_used(int device);
uint64_t p4d_account_peak(int device);

/*
 * The largest request that did not fit; 0: all requests fit. *held: the memory that the device held at that
 * time.
 */
uint64_t p4d_account_refused(int device, uint64_t *held);

/* Like memmove and memset, for at most P4D_ACCOUNT_SMALL bytes if one side is device memory. */
void p4d_account_copy(void *to, const void *from, size_t bytes);
void p4d_account_fill(void *to, int value, size_t bytes);
