/* The part of the standard library that a cartridge has: memory and sorting. Memory is
 * handed out upwards and mostly kept: an instance lives for one call. */
#ifndef HALOFY_STDLIB_H
#define HALOFY_STDLIB_H

#include <stddef.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);
void free(void *old);

/* Ends the call; the kernel serves its baseline. */
_Noreturn void abort(void);

/* A heap sort: order whatever may compare equal by something else as well. */
void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));

#endif
