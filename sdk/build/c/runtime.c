/* The library behind "stdlib.h" and "string.h", for a module with neither system nor libc.
 * Linked into every cartridge in C; what is not used is dropped by the linker. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 65536u
#define ALIGN 16u

/* Where the linker put the end of all data. */
extern unsigned char __heap_base;

/* The first free byte, and the start of the newest block, which alone can grow or go. */
static uintptr_t top;
static uintptr_t newest;

/* Before each block stands its size. */
static size_t *size_of(uintptr_t block) { return (size_t *)(block - ALIGN); }

static uintptr_t aligned(uintptr_t at) { return (at + (ALIGN - 1)) & ~(uintptr_t)(ALIGN - 1); }

/* Makes sure that memory reaches `end`. */
static int reach(uint64_t end) {
  uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) * PAGE;
  if (end <= have) return 1;
  uint64_t pages = (end - have + PAGE - 1) / PAGE;
  if (pages > PAGE) return 0;
  return __builtin_wasm_memory_grow(0, (size_t)pages) != (size_t)-1;
}

void *malloc(size_t size) {
  if (top == 0) top = (uintptr_t)&__heap_base;
  uintptr_t block = aligned(top) + ALIGN;
  if (!reach((uint64_t)block + size)) return 0;
  *size_of(block) = size;
  newest = block;
  top = block + size;
  return (void *)block;
}

void *calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return 0;
  void *block = malloc(bytes);
  if (block) memset(block, 0, bytes);
  return block;
}

void *realloc(void *old, size_t size) {
  if (!old) return malloc(size);
  uintptr_t block = (uintptr_t)old;
  size_t had = *size_of(block);
  if (block == newest) {
    if (!reach((uint64_t)block + size)) return 0;
    *size_of(block) = size;
    top = block + size;
    return old;
  }
  if (size <= had) return old;
  void *moved = malloc(size);
  if (moved) memcpy(moved, old, had);
  return moved;
}

void free(void *old) {
  if (old && (uintptr_t)old == newest) top = newest - ALIGN;
}

_Noreturn void abort(void) { __builtin_trap(); }

static void swap(unsigned char *a, unsigned char *b, size_t size) {
  for (size_t at = 0; at < size; at++) {
    unsigned char kept = a[at];
    a[at] = b[at];
    b[at] = kept;
  }
}

/* Lets the element at `at` sink until no child is greater. */
static void sink(unsigned char *base, size_t at, size_t count, size_t size,
                 int (*compare)(const void *, const void *)) {
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= count) return;
    if (child + 1 < count && compare(base + child * size, base + (child + 1) * size) < 0) child++;
    if (compare(base + at * size, base + child * size) >= 0) return;
    swap(base + at * size, base + child * size, size);
    at = child;
  }
}

void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *)) {
  unsigned char *first = base;
  for (size_t at = count / 2; at-- > 0;) sink(first, at, count, size, compare);
  for (size_t left = count; left > 1; left--) {
    swap(first, first + (left - 1) * size, size);
    sink(first, 0, left - 1, size, compare);
  }
}

/* One instruction each: "bulk memory" is part of the target. */
void *memcpy(void *restrict to, const void *restrict from, size_t size) {
  return __builtin_memcpy(to, from, size);
}

void *memmove(void *to, const void *from, size_t size) { return __builtin_memmove(to, from, size); }

void *memset(void *at, int byte, size_t size) { return __builtin_memset(at, byte, size); }

int memcmp(const void *a, const void *b, size_t size) {
  const unsigned char *left = a, *right = b;
  for (size_t at = 0; at < size; at++) {
    if (left[at] != right[at]) return left[at] - right[at];
  }
  return 0;
}

size_t strlen(const char *text) {
  size_t length = 0;
  while (text[length]) length++;
  return length;
}
