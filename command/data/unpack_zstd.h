/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

#include "base/error.h"

/*
 * What a file that zstd compressed holds, as a stream that is read from its beginning. name: of the file, in
 * messages. The caller closes it. NULL with IO (libzstd is not installed, or no memory). Reading fails with
 * EBADMSG where the file is damaged or cut off.
 */
FILE *p4d_unpack_zstd(int fd, const char *name, p4d_error *err);
